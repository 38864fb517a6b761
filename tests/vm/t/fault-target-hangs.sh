# vm: on=6.12/siw also=6.1/rxe needs=rblkd cpus=1
# rblkd is stopped for 30 s while its connections stay up (F4): the host's keep-alive notices, not the fabric; the host
# comes back by itself, fio sees neither an error nor a wrong byte.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:hang

fabric
nvme_up
disks 32 32
rblkd_serves $nqn "file: $file"
must "nvme connect" nvme_connect $nqn --reconnect-delay 2 --keep-alive-tmo 5 --ctrl-loss-tmo 300
ctrl=$(nvme_ctrl $nqn)
fio_begin "$(nvme_disk "$ctrl")" 4k 8 40
mark=$(dmesg_mark)
kill -STOP "$rblkd"
sleep 30
said=$(dmesg_since "$mark")
# the keep-alive is due every KATO / 2 and given up after KATO; a command only after 30 s
like "the host noticed by its keep-alive" "$said" 'keep-alive|Reconnecting|error recovery'
like "  and is trying to come back" "$(cat "/sys/class/nvme/$ctrl/state")" 'connecting|resetting'
kill -CONT "$rblkd"
check "the host is back soon after" wait_for 20 grep -q live "/sys/class/nvme/$ctrl/state"
check "fio verified everything" fio_end
check "nvme disconnect" nvme disconnect -n $nqn
rblkd_done "$base"
done_testing
