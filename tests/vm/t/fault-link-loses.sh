# vm: two=yes on=6.1/rxe also=6.12/siw needs=rblkd cpus=1
# Two machines and a cable that loses 5 % of the packets for 20 s and then all of them for 12 s (F3): the kernel's host
# comes back to rblkd by itself, fio sees neither an error nor a wrong byte, and nothing is left behind in the target.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:loss

fabric
if [ "$ROLE" = target ]; then
    disks 32 32
    rblkd_serves $nqn "file: $file"
    idle=$(resources)
    reached listening
    await gone 200
    check "what the lost connections held is free" wait_for 12 eval '[ "$(resources)" = "$idle" ]' ||
        note "idle: $idle; now: $(resources); $(rdma resource show cm_id; rdma resource show qp; rdma resource show mr)"
    rblkd_done "$base"
    done_testing
fi

nvme_up
need_modules sch_netem
await listening
must "nvme connect" nvme_connect $nqn --reconnect-delay 2 --keep-alive-tmo 5 --ctrl-loss-tmo 300
ctrl=$(nvme_ctrl $nqn)
fio_begin "$(nvme_disk "$ctrl")" 4k 8 40
sleep 3
tc qdisc add dev eth0 root netem loss 5%
sleep 20
tc qdisc change dev eth0 root netem loss 100%
# On iWARP a longer cut shows the kernel host's patience only: a Connect that TCP was still repeating is given up after
# 60 s, with any target.
[ "$FABRIC" = siw ] && sleep 4 || sleep 12
tc qdisc del dev eth0 root
check "the host is back" wait_for 20 grep -q live "/sys/class/nvme/$ctrl/state"
check "fio verified everything" fio_end
note "reconnects: $(dmesg | grep -c 'Successfully reconnected')"
check "nvme disconnect" nvme disconnect -n $nqn
reached gone
done_testing
