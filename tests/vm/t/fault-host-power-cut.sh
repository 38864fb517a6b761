# vm: two=yes on=6.12/siw also=6.1/rxe needs=rblkd cpus=1
# The host's machine loses power under load (F2): within its keep-alive time and 5 s rblkd has given back every
# resource of it, and serves on.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:cut
kato=5

fabric
if [ "$ROLE" = host ]; then
    nvme_up
    await listening
    must "nvme connect" nvme_connect $nqn --keep-alive-tmo $kato
    fio --name=load --filename="$(nvme_disk "$(nvme_ctrl $nqn)")" --rw=randrw --bs=64k --iodepth=16 --size=16m \
        --ioengine=libaio --direct=1 --time_based --runtime=60 >/run/fio.log 2>&1 &
    check "fio runs" wait_for 10 eval "[ \$(writes) -gt 100 ]"
    reached cut
    power_cut
fi

disks 32 32
rblkd_serves $nqn "file: $file"
# the file system's own QP and the listener are all that may be left
qps() { resources | sed 's/.* qp //;s/ .*//'; }
idle=$(qps) listening=$(resources)
reached listening
await cut
busy=$(qps)
like "the host's queues are there" "$((busy - idle))" '^[2-9]'
check "every resource of the host is free within KATO + 5 s" within $((kato + 5)) eval '[ "$(resources)" = "$listening" ]'
note "$(resources)"
check "rblkd lives" rblkd_alive
nvme_up
check "and serves the next host" nvme_connect $nqn
check "  which writes and reads" fio_verify "$(nvme_disk "$(nvme_ctrl $nqn)")" 4k 16 4m
check "nvme disconnect" nvme disconnect -n $nqn
rblkd_done "$base"
done_testing
