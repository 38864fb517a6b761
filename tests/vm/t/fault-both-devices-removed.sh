# vm: on=6.12/siw also=6.1/rxe needs=rblkd,rblk cpus=1
# Target and host of our own lose the RDMA device that they share, under load, and later while the host has nothing but
# attempts to connect: each time `rdma link delete` returns, both live, and I/O goes on when the device is back.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:both
socket=/run/both.sock
need fio

delete_link() {
    rm -f /run/deleted
    (rdma link delete "${FABRIC}0"; touch /run/deleted) &
    wait_for 30 test -e /run/deleted || {
        sed 's/^/#   it waits in: /' "/proc/$(pgrep -x rdma)/stack"
        kill -9 "$rblkd" "$serving"
        return 1
    }
}

fabric
host_identity
disk=$(ram_disk 32)
rblkd_serves $nqn "device: $disk"
must "rblk serve" rblk_serve "$nqn@$TARGET:$PORT" --reconnect-delay 2s --ctrl-loss-tmo 200s $socket
(
    fio --name=v --ioengine=nbd --uri="nbd+unix:///?socket=$socket" --rw=randwrite --bs=4k --iodepth=8 --size=6m \
        --rate_iops=250 --verify=crc32c --verify_fatal=1 >/run/fio.log 2>&1
    echo $? >/run/fio.rc
) &
sleep 3
check "rdma link delete under load" delete_link
check "  rblkd lives" rblkd_alive
check "  rblk lives" test -e "/proc/$serving/exe"
sleep 3
fabric
check "  rblkd listens again" rblkd_listens
check "fio verified everything" fio_end 150 || tail -n 20 /run/rblk.log /run/rblkd.log
must "rblkd stops" rblkd_stop
sleep 3
check "rdma link delete while rblk tries to connect" delete_link
sleep 2
fabric
must "rblkd listens" rblkd_start </dev/null
check "I/O goes on" timeout 60 fio --name=w --ioengine=nbd --uri="nbd+unix:///?socket=$socket" --rw=write --bs=64k \
    --size=4m --verify=crc32c --output=/run/fio.log
check "rblk stops" rblk_serve_stop
rblk_tell
check "rblkd stops" rblkd_stop
sed -i "s/address: $TARGET/address: 0.0.0.0/" $conf
must "rblkd listens at every address" rblkd_start </dev/null
like "rblk discover" "$(rblk discover "$TARGET:$PORT" 2>&1)" $nqn
check "rdma link delete while no host is connected" delete_link
fabric
check "  rblkd listens again" rblkd_listens
like "  rblk discover" "$(rblk discover "$TARGET:$PORT" 2>&1)" $nqn
rblkd_done "$base"
done_testing
