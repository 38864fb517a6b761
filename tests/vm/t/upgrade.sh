# vm: on=6.12/rxe also=6.1/siw,6.1/rxe,6.12/siw needs=rblkd,rblkctl
# rblkctl upgrade with the kernel's host on one port: it connects to the new process at once, instead of after its
# reconnect delay, here a minute, and fio sees neither an error nor a wrong byte. Memory and a reservation go on.
# An argument is the number of upgrades in a row: tests/vm/run-vm --timeout 6000 tests/vm/t/upgrade.sh 100
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:upgrade
UPGRADES=${1:-8}

fabric
nvme_up
disks 64 64
rblkd_serves $nqn "file: $file" "ram: 64MiB"
must "nvme connect" nvme_connect $nqn --reconnect-delay=60 --ctrl-loss-tmo=600
ctrl=$(nvme_ctrl $nqn)
wait_for 10 nvme_disk "$ctrl" 2
disk_1=$(nvme_disk "$ctrl" 1) disk_2=$(nvme_disk "$ctrl" 2)
check "register" nvme resv-register "$disk_2" -n 2 --nrkey=7 --rrega=0
check "reserve" nvme resv-acquire "$disk_2" -n 2 --crkey=7 --rtype=1 --racqa=0
check "fill the memory" fio_verify "$disk_2" 64k 16 16m

load_begin "$disk_1" --size=32m --offset=32m
load_begin "$disk_2" --size=32m --offset=32m
for i in $(seq "$UPGRADES"); do
    load_step
    check "upgrade $i" eval 'rblkctl upgrade -o json >/run/upgrade && cat /run/upgrade >>/run/upgrades'
    check "  the host is back" wait_for 60 eval "[ \$(cat /sys/class/nvme/$ctrl/state) = live ]"
    pause 0.5
done
note "hosts were told until it served, in ms: $(jq -s 'map(.held_ms) | sort | "median \(.[length / 2 | floor]), longest \(last)"' /run/upgrades)"
load_end "file" "$disk_1" 30
load_end "memory" "$disk_2" 30
check "memory holds what was written before" fio --name=t --filename="$disk_2" --rw=read --bs=64k --size=16m \
    --ioengine=libaio --direct=1 --verify=crc32c --verify_only --verify_fatal=1 --minimal
like "the reservation is there" "$(nvme resv-report "$disk_2" -n 2 -e 2>&1)" 'regctl *: *1'
check "disconnect" nvme disconnect -n $nqn
rblkd=$(rblkctl status -o json | jq .pid)
check "rblkd stops when asked" eval "kill $rblkd && wait_for 20 test ! -e /proc/$rblkd/exe"
left_nothing "$base"
done_testing
