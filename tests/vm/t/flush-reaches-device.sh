# vm: on=6.12/rxe also=6.1/rxe needs=rblkd,rblk cpus=1
# What a host was told is durable is durable (F21): dm-log-writes under rblkd sees each flush and FUA that the kernel's
# host and a volume at /dev/nbdN send, and the disk as a power cut at that moment would have left it holds every file
# that was synced.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:flush

fabric
nvme_up
need dmsetup python3
need_modules dm-log-writes
/lib/systemd/systemd-udevd --daemon 2>/dev/null
under=$(ram_disk 256) log=$(ram_disk 1024)
check "dm-log-writes" dmsetup create logged --table "0 $((256 << 11)) log-writes $under $log" --noudevsync
device=/dev/mapper/logged
[ -b $device ] || dmsetup mknodes logged
rblkd_serves $nqn "device: $device"
must "nvme connect" nvme_connect $nqn
disk=$(nvme_disk "$(nvme_ctrl $nqn)")
is "the host knows of a volatile write cache" "$(<"/sys/block/${disk##*/}/queue/write_cache")" "write back"

# the log is written behind the page cache's back
read_log() { blockdev --flushbufs "$log"; tests/vm/log-writes "$@"; }
# a mark also brings the log's superblock up to date
counts() { dmsetup message logged 0 mark count && read_log count "$log"; }
of() { sed "s/.*$1=\([0-9]*\).*/\1/" <<<"$2"; }
# flushes_reach NAME DISK
flushes_reach() {
    local a b c load="--name=w --filename=$2 --rw=write --bs=4k --size=400k --ioengine=psync --direct=1"
    a=$(counts)
    # shellcheck disable=SC2086
    check "$1: 100 writes, fdatasync between them" fio $load --fdatasync=1
    b=$(counts)
    check "  became a flush each" test $(($(of flushes "$b") - $(of flushes "$a"))) -ge 99
    note "$b"
    # shellcheck disable=SC2086
    check "$1: 100 writes with O_DSYNC" fio $load --sync=dsync
    c=$(counts)
    check "  became 100 FUA writes or flushes" \
        test $(($(of fuas "$c") + $(of flushes "$c") - $(of fuas "$b") - $(of flushes "$b"))) -ge 100
    note "$c"
}
flushes_reach "the kernel's host" "$disk"
nbd_up
must "rblk attach" nbd_attach $nqn logged
flushes_reach /dev/nbd "$(nbd_attached)"
check "rblk detach" rblk detach logged

sums() { (cd "$1" && find liba* -type f -exec sha256sum {} +) | sort; }
check "mkfs.ext4, mount" eval "mkfs.ext4 -q $disk && mount $disk /mnt"
check "copy a tree of files in" cp -a /usr/share/doc/liba* /mnt/
sync -f /mnt
dmsetup message logged 0 mark synced
cp -a /usr/share/doc/libb* /mnt/ 2>/dev/null
umount /mnt
truncate -s 256M /run/image
check "the disk at the moment sync returned" read_log replay "$log" /run/image synced
check "  is a file system" eval "e2fsck -fy /run/image; [ \$? -le 1 ]"
check "  mounts" eval "modprobe loop; mount -o loop /run/image /mnt"
sums /usr/share/doc >/run/sums
check "  and holds every file" eval "sums /mnt | cmp - /run/sums"
umount /mnt

check "nvme disconnect" nvme disconnect -n $nqn
rblkd_done "$base"
done_testing
