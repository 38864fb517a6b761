# vm: on=6.1/rxe,6.12/siw needs=rblk,rblkd cpus=1
# Both our own on a real fabric: rblk against rblkd, 512 B and 4 KiB blocks, and a device that takes one request at a
# time: a thread that submits a second one there waits for a tag in the kernel, which a poller must not.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:own
need nbdcopy nbdinfo qemu-io

fabric
host_identity
disk=$(ram_disk 24)
disk_4k=$(ram_disk 24 4096)
disk_slow=$(ram_disk 24 512 submit_queues=1 hw_queue_depth=1 irqmode=2 completion_nsec=500000)
rblkd_serves $nqn "device: $disk" "device: $disk_4k, block_size: 4096" "device: $disk_slow"
like "rblk discover" "$(rblk discover "$TARGET:$PORT" 2>&1)" $nqn
volume_works "512 B blocks" $nqn 1 "$disk"
volume_works "4 KiB blocks" $nqn 2 "$disk_4k"
volume_works "one request at a time" $nqn 3 "$disk_slow"
windows_work $nqn
rblk_tell
rblkd_done "$base"
done_testing
