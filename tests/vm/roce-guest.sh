# vm: timeout=900
# The guest's half of t/roce-beside-rxe.sh: the kernel's rdma_rxe, 10.77.0.1, and softrdma on the other end of the cable:
# rping on 10.77.0.2, rblkd on 10.77.0.3, then programs that connect to here.
. tests/vm/lib.sh
nqn=nqn.2024-01.test:far own=nqn.2024-01.test:guest
other=10.77.0.2

fabric rxe
ip -6 addr add fd77::1/64 dev eth0 nodad
nvme_up

check "rping, IPv4" rping -c -a $other -C 10 -V -v
check "rping, IPv6" rping -c -a fd77::2 -C 10 -V -v
check "rping, 60,000 bytes" rping -c -a $other -C 3 -V -S 60000
check_fails "no program listens: rejected with reason 8" 'REJECTED, error 8' rping -c -a $other -p 99 -C 1

check "nvme connect" nvme connect -t rdma -a 10.77.0.3 -s 4420 -n $nqn -i 2
dev=/dev/nvme0n1
wait_for 20 test -b $dev
for bs in 4k 64k; do
    check "fio, verified, $bs" fio --name=t --filename=$dev --ioengine=libaio --direct=1 --rw=randwrite --bs=$bs \
        --iodepth=8 --size=4m --verify=crc32c --verify_fatal=1 --verify_state_save=0
done
check "mkfs and mount" bash -c "mkfs.ext4 -q $dev && mount $dev /mnt && echo x >/mnt/x && sync && umount /mnt"
check "nvme disconnect" nvme disconnect -n $nqn

# Faults: 5 % of the packets lost, a cable that is out for 12 s, a target that is killed and comes back. rxe may need a
# reconnect under loss: it carries out REG_MR twice when it sends again ("not free").
need_modules sch_netem
loses() { tc qdisc replace dev eth0 root netem loss "$1"; }
loss_s=${1:-5}
echo 5 >/sys/module/nvme_core/parameters/io_timeout
check "nvme connect, to stay" nvme connect -t rdma -a 10.77.0.3 -s 4420 -n $nqn -i 2 -l 600 -c 1 -k 5
ctrl=$(nvme_ctrl $nqn)
wait_for 20 test -b $dev
fio_begin $dev 4k 4 $((loss_s + 10))
loses 5%
pause "$loss_s"
loses 0%
reached loss-is-over
await cable-is-back 120
check "the host is back after a cut of 12 s" wait_for 60 grep -q live "/sys/class/nvme/$ctrl/state"
reached guest-is-back
await target-was-killed
check "all that was written verifies, after kill -9 of the target too" fio_end 120
check "nvme disconnect" nvme disconnect -n $nqn
note "reconnects: $(dmesg | grep -c 'Successfully reconnected')"

# where rdma_rxe has the port, softrdma says so
check_fails "softrdma beside rdma_rxe is told" "the kernel's rdma_rxe has it" env \
    SOFTRDMA_LIB="$BUILD/softrdma/libsoftrdma.so" timeout 60 tools/softrdma --roce rping -s -a 10.77.0.1 -C 1

rping -s -a 10.77.0.1 -C 10 -V >/run/rping 2>&1 &
server=$!
wait_for 20 bash -c 'rdma resource show cm_id | grep -q "LISTEN.*:7174"'
reached guest-listens
await host-has-pinged 120
check "rping from there" wait $server

nvmet_up
disk=$(ram_disk 64)
check "the kernel's target" nvmet_subsystem $own "$disk"
check "its port" nvmet_port 10.77.0.1
reached target-listens
await host-wants-loss 240
loses 5%
reached guest-loses
await host-is-done 240
nvmet_down
done_testing
