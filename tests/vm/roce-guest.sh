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
await host-is-done 240
nvmet_down
done_testing
