# vm: on=6.1/siw,6.12/rxe also=6.1/rxe,6.12/siw needs=rblkd,rblkctl
# What happens to a connected kernel host in the life of a controller: growth, reset, a restart of rblkd planned and by
# kill -9, disconnect, all under fio with verify.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:life

fabric
nvme_up
disks 128 128
rblkd_serves $nqn "file: $file" "device: $device, block_size: 4096"
must "nvme connect" nvme_connect $nqn --reconnect-delay 1 --keep-alive-tmo 5 --ctrl-loss-tmo 300
ctrl=$(nvme_ctrl $nqn)
disk=$(nvme_disk "$ctrl")

load() { fio_begin "$disk" 4k 16 "$1"; }
live() { grep -q live "/sys/class/nvme/$ctrl/state"; }

truncate -s 144M "$file"
check "the namespace grows" rblkctl ns resize $nqn 1
check "  the host sees it, unasked" wait_for 10 eval "[ \$(<${disk/dev/sys\/block}/size) = $((144 << 11)) ]"
check "  and uses the new part" fio_verify "$disk" 4k 8 1m --offset=136m

load 6
for i in 1 2 3; do
    check "nvme reset under load ($i)" twice eval "wait_for 20 live && nvme reset /dev/$ctrl"
    check "  the controller is live again" wait_for 20 live
done
check "fio verified everything" fio_end

load 6
kill -9 "$rblkd"
check "rblkd starts again after kill -9 under load" rblkd_start </dev/null
check "  the host is back" host_returns live
check "  fio verified everything" fio_end

load 6
check "rblkd stops under load" rblkd_stop
check "  and starts again" rblkd_start </dev/null
check "  the host is back" host_returns live
check "  fio verified everything" fio_end

load 20
check "disconnect under load" nvme disconnect -n $nqn
fio_end >/dev/null
check "  the disk is gone" wait_for 10 test ! -e "$disk"
check "  rblkd lives" rblkd_alive
check "  the host connects again" nvme_connect $nqn
check "  and writes" fio_verify "$(nvme_disk "$(nvme_ctrl $nqn)")" 4k 16 4m
check "nvme disconnect" nvme disconnect -n $nqn
rblkd_done "$base"
done_testing
