# vm: on=all needs=rblkd
# The kernel's host on rblkd's namespaces of every kind (file, device of 4 KiB blocks, RAM): what is written is read
# back, at every block size and depth, through file systems, and after discard and write zeroes; and it lies in the
# backing store where it belongs.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:data

fabric
nvme_up
disks 384 384
rblkd_serves $nqn "file: $file" "device: $device, block_size: 4096" "ram: 64MiB"
must "nvme connect" nvme_connect $nqn
ctrl=$(nvme_ctrl $nqn)
wait_for 10 nvme_disk "$ctrl" 2 && wait_for 10 nvme_disk "$ctrl" 3
disk_1=$(nvme_disk "$ctrl" 1) disk_2=$(nvme_disk "$ctrl" 2) disk_3=$(nvme_disk "$ctrl" 3)

for load in "512 1 16k" "512 128 128k" "4k 1 64k" "4k 128 2m" "64k 16 4m" "1m 1 2m" "1m 128 16m"; do
    # shellcheck disable=SC2086
    check "file: fio verify, block size, depth, bytes: $load" fio_verify "$disk_1" $load
done
check "file: fio verify of sizes 512 B to 256 KiB" fio_verify "$disk_1" 512 32 1m --bsrange=512-256k
for load in "4k 128 1m" "1m 16 4m"; do
    # shellcheck disable=SC2086
    check "device: fio verify: $load" fio_verify "$disk_2" $load
    # shellcheck disable=SC2086
    check "ram: fio verify: $load" fio_verify "$disk_3" $load
done
check "three namespaces at once" fio --name=all --rw=randrw --bs=4k --iodepth=16 --size=1m --ioengine=libaio --direct=1 \
    --verify=crc32c --verify_fatal=1 --randrepeat=0 --group_reporting --minimal \
    --filename="$disk_1:$disk_2:$disk_3" --file_service_type=roundrobin

# the same bytes on both sides, so nothing is merely remembered
sum() { dd if="$1" bs=1M count=4 iflag=direct 2>/dev/null | md5sum | cut -d' ' -f1; }
check "flush" nvme flush "$disk_1" -n 1
is "file: what the host reads is what the file holds" "$(sum "$disk_1")" "$(sum "$file")"
check "flush" nvme flush "$disk_2" -n 2
is "device: what the host reads is what the device holds" "$(sum "$disk_2")" "$(sum "$device")"

for disk in "$disk_1" "$disk_2" "$disk_3"; do
    like "$disk takes discard" "$(<"/sys/block/${disk##*/}/queue/discard_max_bytes")" '^[1-9]'
    like "$disk takes write zeroes" "$(<"/sys/block/${disk##*/}/queue/write_zeroes_max_bytes")" '^[1-9]'
    tr '\0' '\252' </dev/zero | dd of="$disk" bs=1M count=8 iflag=fullblock oflag=direct 2>/dev/null
    check "$disk: blkdiscard of 2 MiB" blkdiscard -o 1M -l 2M "$disk"
    check "  reads back as zeroes" cmp -n 2097152 -i 1048576:0 "$disk" /dev/zero
    check "$disk: blkdiscard --zeroout of 2 MiB" blkdiscard -z -o 4M -l 2M "$disk"
    check "  reads back as zeroes" cmp -n 2097152 -i 4194304:0 "$disk" /dev/zero
    is "  and its neighbours are as before" "$(dd if="$disk" bs=4k skip=1535 count=2 iflag=direct 2>/dev/null | tr -d '\252' | wc -c)" 4096
    is "  up to the block" "$(dd if="$disk" bs=4k skip=255 count=1 iflag=direct 2>/dev/null | tr -d '\252' | wc -c)" 0
done

sums() { (cd "$1" && find liba* -type f -exec md5sum {} +) | sort; }
tree=/usr/share/doc
sums $tree >/run/sums
note "a tree of $(wc -l </run/sums) files"
for fs in ext4 xfs; do
    [ $fs = ext4 ] && disk=$disk_1 || disk=$disk_2
    check "mkfs.$fs" eval "wipefs -qa $disk; mkfs.$fs -q $disk"
    check "mount" mount "$disk" /mnt
    check "copy a tree of files in" cp -a $tree/liba* /mnt/
    check "umount, mount again" eval "umount /mnt && mount $disk /mnt"
    check "every file is as it was" eval "sums /mnt | cmp - /run/sums"
    check "fstrim" fstrim /mnt
    check "umount" umount /mnt
done
check "fsck of ext4" e2fsck -fn "$disk_1"
check "xfs_repair finds nothing" xfs_repair -n "$disk_2"

check "nvme disconnect" nvme disconnect -n $nqn

# 4 KiB is the default
for inline in 0 16KiB; do
    rblkd_stop
    check "rblkd takes $inline of data in a command" rblkd_start < <(cat $conf; echo "tuning: {inline_data: $inline}")
    check "  nvme connect" nvme_connect $nqn
    ctrl=$(nvme_ctrl $nqn)
    is "  what the host was told" "$(nvme id-ctrl "/dev/$ctrl" -o json | jq .ioccsz)" \
        $((4 + ${inline%KiB} * 1024 / 16))
    check "  fio verify of sizes 512 B to 32 KiB" fio_verify "$(nvme_disk "$ctrl")" 512 16 1m --bsrange=512-32k
    check "  nvme disconnect" nvme disconnect -n $nqn
    sed -i '/^tuning/d' $conf
done
rblkd_done "$base"
done_testing
