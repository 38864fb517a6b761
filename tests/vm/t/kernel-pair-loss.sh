# vm: two=yes also=6.1/rxe
# Two machines and a cable that loses 3 % of the packets for 8 s and then all of them for 6 s, under the kernel's own
# host and target: shows what the fabric itself survives, the measure for our programs.
. tests/vm/lib.sh
nqn=nqn.2024-01.test:pair

fabric
if [ "$ROLE" = target ]; then
    nvmet_up
    nvmet_subsystem $nqn "$(ram_disk 64)" && nvmet_port "$TARGET" && reached listening
    await done 200
    exit
fi

nvme_up
need_modules sch_netem
await listening
must "nvme connect" nvme_connect $nqn --reconnect-delay 2 --keep-alive-tmo 5
dev=$(nvme_disk "$(nvme_ctrl $nqn)")
fio_begin "$dev" 4k 8 20
tc qdisc add dev eth0 root netem loss 3%
sleep 8
tc qdisc change dev eth0 root netem loss 100%
sleep 6
tc qdisc del dev eth0 root
check "fio verified everything" fio_end
note "reconnects: $(dmesg | grep -c 'Successfully reconnected')"
check "nvme disconnect" nvme disconnect -n $nqn
reached done
done_testing
