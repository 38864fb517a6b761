# vm: on=6.12/rxe also=6.1/rxe needs=rblk,rblkd
# A volume as /dev/nbdN: set up as it should be, partitioned, with ext4 and xfs, trimmed and zeroed down to the target,
# resized while mounted, found under its name, and not detached while it is in use.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:nbd

fabric
host_identity
nbd_up
disks 384 384
rblkd_serves $nqn "file: $file, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10"
# udev before the device, as on any machine
need udevadm
mkdir -p /run/udev
cp "$VM_REPO"/debian/*.rules "$VM_REPO"/tools/*/*.rules /etc/udev/rules.d/ 2>/dev/null
/lib/systemd/systemd-udevd --daemon 2>/dev/null

must "rblk attach" nbd_attach $nqn data
dev=$(nbd_attached)
[ -b "$dev" ] || done_testing
q=/sys/block/${dev##*/}/queue
is "size" "$(blockdev --getsize64 "$dev")" $((384 << 20))
like "no scheduler" "$(<"$q/scheduler")" '\[none\]'
like "1 MiB at a time" "$(<"$q/max_sectors_kb")" '^(1024|[2-9][0-9]{3})'
is "128 requests" "$(<"$q/nr_requests")" 128
is "the kernel's timer: ten seconds" "$(<"$q/io_timeout")" 10000
is "the namespace's UUID names the backend" "$(cat "/sys/block/${dev##*/}/backend")" 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10
udevadm settle
is "/dev/disk/by-rblk/data" "$(readlink -f /dev/disk/by-rblk/data)" "$dev"
check "a second attach is a success and the same device" eval "[ \"\$(nbd_attach $nqn data)\" = $dev ]"

for load in "512 1 16k" "4k 128 2m" "64k 16 4m" "1m 8 16m"; do
    # shellcheck disable=SC2086
    check "fio verify: $load" fio_verify "$dev" $load
done

command -v sfdisk >/dev/null || note "no sfdisk, so no partitions"
if command -v sfdisk >/dev/null; then
    check "two partitions" eval "printf '%s\n' ,200M , | sfdisk -q $dev"
    check "  are there at once" wait_for 5 test -b "${dev}p2"
    check "  and are used" fio_verify "${dev}p2" 4k 16 4m
    check "wipe" eval "wipefs -qa ${dev}p1 ${dev}p2; wipefs -qa $dev; blockdev --rereadpt $dev"
fi

tree=/usr/share/doc
sums() { (cd "$1" && find liba* -type f -exec sha256sum {} +) | sort; }
sums $tree >/run/sums
for fs in ext4 xfs; do
    check "mkfs.$fs" eval "wipefs -qa $dev; mkfs.$fs -q $dev"
    check "  mount" mount "$dev" /mnt
    check "  copy a tree of files in" cp -a $tree/liba* /mnt/
    check "  umount, mount again" eval "umount /mnt && mount $dev /mnt"
    check "  every file is as it was" eval "sums /mnt | cmp - /run/sums"
    check "  fstrim" fstrim /mnt
    [ $fs = ext4 ] || break
    udevadm monitor --kernel --property --subsystem-match=block >/run/events &
    # its socket is of protocol 15, uevents, and has the number of the process once it listens
    wait_for 20 grep -qE "^[0-9a-f]+ 15 +$! " /proc/net/netlink
    truncate -s 416M "$file"
    check "  the namespace grows under the mounted device" rblkctl ns resize $nqn 1
    check "    the device follows" wait_for 20 eval "[ \$(blockdev --getsize64 $dev) = $((416 << 20)) ]"
    check "    udev hears of it" wait_for 20 grep -q RESIZE=1 /run/events
    kill $!
    check "    and the file system" resize2fs "$dev"
    is "    which has the room" \
        "$(dumpe2fs -h "$dev" 2>/dev/null | awk '/^Block count:/ { n = $3 } /^Block size:/ { print n * $3 }')" $((416 << 20))
    check "    every file is as it was" eval "sums /mnt | cmp - /run/sums"
    check "  umount" umount /mnt
done

# still mounted
check_fails "detach of a mounted device is refused, with its holder" /mnt rblk detach data
check "  the mount is unharmed" touch /mnt/alive
truncate -s 448M "$file"
check "the namespace grows under the mounted device" rblkctl ns resize $nqn 1
check "  the device follows" wait_for 20 eval "[ \$(blockdev --getsize64 $dev) = $((448 << 20)) ]"
check "  and the file system" xfs_growfs /mnt
check "umount" umount /mnt

used() { stat -c %b "$file"; }
check "fill 16 MiB" dd if=/dev/urandom of="$dev" bs=1M count=16 oflag=direct
sync -f "$file"
full=$(used)
check "blkdiscard" blkdiscard -l 16M "$dev"
sync -f "$file"
check "  has freed the file's blocks" test "$(used)" -lt $((full - 30000))
check "  reads back as zeroes" cmp -n 16777216 "$dev" /dev/zero
check "blkdiscard --zeroout" eval "dd if=/dev/urandom of=$dev bs=1M count=4 oflag=direct && blkdiscard -z -l 4M $dev"
check "  reads back as zeroes" cmp -n 4194304 "$dev" /dev/zero

mark=$(dmesg_mark)
check "rblk detach" rblk detach data
check "  the kernel complains of nothing" eval "! dmesg_since $mark | grep -iE 'error|fail|attempted'"
check "  the device is gone" wait_for 5 test ! -e "/sys/block/${dev##*/}/pid"
rblkd_done "$base"
done_testing
