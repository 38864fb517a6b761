# vm: also=6.1/rxe,6.12/siw cpus=1
# The kernel's host uses the kernel's target: shows that the machine, the fabric and these helpers work without any of
# our code, so that a failure elsewhere is ours.
. tests/vm/lib.sh
nqn=nqn.2024-01.test:pair

fabric
nvmet_up
nvme_up
disk=$(ram_disk 64)
before=$(resources)
check "the kernel's target has a namespace" nvmet_subsystem $nqn "$disk"
must "it listens on $TARGET" nvmet_port "$TARGET"

must "nvme discover" nvme_discover
like "the discovery log names the subsystem" "$(cat /run/said)" "subnqn: *$nqn"
must "nvme connect" nvme_connect $nqn
dev=$(nvme_disk "$(nvme_ctrl $nqn)")
for load in "512 1 16k" "4k 32 1m" "64k 8 4m" "1m 4 8m"; do
    # shellcheck disable=SC2086
    check "fio verify, block size, depth, bytes: $load" fio_verify "$dev" $load
done
check "nvme disconnect" nvme disconnect -n $nqn
check "the controller is gone" wait_for 10 test ! -e "$dev"
nvmet_down
left_nothing "$before"
done_testing
