# vm: on=6.1/rxe also=6.12/rxe needs=rblkd,rblkctl cpus=1
# A disk that fails (dm-error, dm-flakey) under rblkd and the kernel's host: each error is heard, with the status that it
# deserves; a failed Flush or FUA write is final until rblkd is started again, other errors end when the disk is well
# (F9). A full file system refuses what needs space, and nothing else. Readers see whole blocks of a device. And when the
# power goes, what was flushed or written with FUA is there, in a sparse file on ext4, too.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:fails sectors=$((64 << 11))

fabric
nvme_up
need dmsetup
need_modules dm-mod dm-flakey
/lib/systemd/systemd-udevd --daemon 2>/dev/null
# with a cache, or the kernel would send no flush down
under=$(ram_disk 64 512 cache_size=8) under_fs=$(ram_disk 64 512 cache_size=8)

# table NAME LINE...: the device is this from now on
table() { printf '%s\n' "${@:2}" | dmsetup reload "$1" && dmsetup suspend "$1" && dmsetup resume "$1" --noudevsync; }
well() { table "$1" "0 $sectors linear $2 0"; }
# flaky NAME DEVICE WHAT: error_writes or drop_writes, for ever
flaky() { table "$1" "0 $sectors flakey $2 0 0 86400 1 $3"; }
for pair in "weak $under" "weakfs $under_fs"; do
    check "dm device ${pair% *}" dmsetup create "${pair% *}" --table "0 $sectors linear ${pair#* } 0" --noudevsync
    [ -b "/dev/mapper/${pair% *}" ] || dmsetup mknodes "${pair% *}"
done
must "ext4 on one" eval "mkfs.ext4 -q /dev/mapper/weakfs && mkdir -p /srv && mount /dev/mapper/weakfs /srv"
truncate -s 32M /srv/a.img
big_blocks=$(ram_disk 1 4096)
base=$(resources)

begin() {
    must "rblkd listens" rblkd_start
    must "nvme connect" nvme_connect $nqn
    ctrl=$(nvme_ctrl $nqn)
    disk=$(nvme_disk "$ctrl") file=$(nvme_disk "$ctrl" 2) blocks=$(nvme_disk "$ctrl" 3)
}
stops_with_an_error() { rblkd_stop; [ $? = 1 ]; }
again() {
    check "nvme disconnect" nvme disconnect -n $nqn
    check "rblkd stops, with the error that its disk cannot be synced" stops_with_an_error
    begin </dev/null
}

for byte in a b c; do head -c 4096 /dev/zero | tr '\0' $byte >/run/$byte; done
# put BYTE DISK LBA [--force-unit-access], get DISK LBA, holds BYTE DISK LBA: 8 blocks, with the status of one command
put() { nvme write "$2" -s "$3" -c 7 -z 4096 -d "/run/$1" "${@:4}"; }
get() { nvme read "$1" -s "$2" -c 7 -z 4096 -d /run/got; }
holds() { get "$2" "$3" && cmp /run/got "/run/$1"; }
flush() { nvme flush "$1"; }

# heard WHAT STATE: the log has the line, rblkctl the error
heard() {
    check "  the log tells" grep -E "namespace $nqn/1, /dev/mapper/weak: $1 failed: .*error; host nqn" /run/rblkd.log
    rblkctl status >/run/status
    is "  rblkctl status ends with 6" $? 6
    like "  and shows it" "$(</run/status)" "$nqn/1 +$2 +[0-9]+ +20[0-9T:-]+Z, $1, host nqn.*error"
    : >/run/rblkd.log
}
forgiven() {
    check "  an administrator knows" rblkctl clear
    check "  and all is well" rblkctl status
}
# final WHAT: nothing that changes the disk is believed any more, though it is well again
final() {
    check_fails "  after $1 on a disk that is well, Flush fails" 'Write Fault|280' flush "$disk"
    check_fails "  so does a write" 'Write Fault|280' put b "$disk" 64
    check "  what was flushed can be read" holds a "$disk" 0
    rblkctl clear >/dev/null
    like "  clearing changes nothing" "$(rblkctl list namespaces)" "weak|failed"
    : >/run/rblkd.log
    again
    check "  after a start of rblkd a write and Flush work" eval 'put a "$disk" 64 && flush "$disk"'
    check "  and all is well" rblkctl status
}

begin < <(one_subsystem $nqn "device: /dev/mapper/weak" "file: /srv/a.img" "device: $big_blocks, block_size: 4096")
check "write, Flush" eval 'put a "$disk" 0 && put a "$disk" 2048 && flush "$disk"'

check "sectors go bad" table weak "0 2048 linear $under 0" "2048 8 error" "2056 $((sectors - 2056)) linear $under 2056"
check_fails "a Read there" 'Unrecovered|281' get "$disk" 2048
heard 'read of 8 blocks at LBA 2048' degraded
check_fails "a Write there" 'Write Fault|280' put b "$disk" 2048
heard 'write of 8 blocks at LBA 2048' degraded
check "elsewhere all works" eval 'put a "$disk" 4096 && flush "$disk" && holds a "$disk" 4096'
check "the sectors are well again" well weak "$under"
check "  and are read and written" eval 'holds a "$disk" 2048 && put a "$disk" 2048 --force-unit-access && flush "$disk"'
forgiven

check "the disk refuses writes" flaky weak "$under" error_writes
check_fails "a Flush" 'Write Fault|280' flush "$disk"
heard 'flush' failed
check "the disk is well again" well weak "$under"
final "a Flush that failed"

check "the disk refuses writes" flaky weak "$under" error_writes
check_fails "a Write with FUA" 'Write Fault|280' put b "$disk" 64 --force-unit-access
heard 'write with FUA of 8 blocks at LBA 64' failed
check "the disk is well again" well weak "$under"
final "a FUA write that failed"

# One block has two writers; the reader sees the bytes of one of them. Every write takes the whole of it.
over() { fio --name=over --filename="$blocks" --rw=write --bs=4k --size=4k --direct=1 --ioengine=libaio --iodepth=4 \
    --time_based --runtime=3600 --buffer_pattern="\"$1\"" --minimal >/dev/null; }
read_under_writes() {
    local n=0 seen='' torn=0 now
    while [ $n -lt 100 ] || [ "${#seen}" -lt 2 ]; do
        now=$(dd if="$blocks" iflag=direct bs=4k count=1 2>/dev/null | fold -w1 | sort -u | tr -d '\n')
        [ ${#now} = 1 ] || torn=$((torn + 1))
        [[ $seen = *"$now"* ]] || seen+=$now
        n=$((n + 1))
    done
    is "  blocks of two writes in $n reads" $torn 0
}
check "a device with blocks of 4 KiB" dd if=/run/a of="$blocks" bs=4k oflag=direct
over a & over b &
read_under_writes
kill %over 2>/dev/null; pkill -x fio; wait $(jobs -p | grep -vx "$rblkd")
is "  Identify promises no more: NAWUN, NAWUPF" \
    "$(nvme id-ns "$blocks" -o json | jq -c '[.nsfeat % 4 >= 2, .nawun, .nawupf, .nabsn]')" '[true,0,0,0]'

# fill: not one block of the file system is free. full WHAT: the command was refused for that, and for that alone
fill() {
    dd if=/dev/zero of=/srv/filler bs=64k 2>/dev/null
    dd if=/dev/zero of=/srv/filler bs=4k oflag=append conv=notrunc 2>/dev/null
    sync -f /srv
    ! cp /run/a /srv/one 2>/dev/null && rm -f /srv/one
}
full() {
    check "  the log tells" grep -E "namespace $nqn/2, /srv/a.img: $1 failed: No space left on device" /run/rblkd.log
    rblkctl status >/run/status
    is "  rblkctl status ends with 6" $? 6
    like "  and shows it" "$(</run/status)" "$nqn/2 +degraded +[0-9]+ +20[0-9T:-]+Z, $1, host nqn.*No space"
    check "  what is allocated can be written, and Flush works" eval 'put b "$file" 0 && flush "$file" && holds b "$file" 0'
    : >/run/rblkd.log
    forgiven
}
# each block of 16 at LBA 8192 is a whole old or new one
old_or_new() {
    local i
    for i in {0..15}; do get "$file" $((8192 + 8 * i)) && { cmp /run/got /run/c || cmp -n 4096 /run/got /dev/zero; } || return; done
}
for i in {1..16}; do cat /run/c; done >/run/long
check "a file on ext4: write, Flush" eval 'put a "$file" 0 && flush "$file"'
check "the file system is full" fill
check_fails "a Write to a hole" 'Capacity Exceeded|4081' put a "$file" 4096
full 'write of 8 blocks at LBA 4096'
check_fails "a Write with FUA to a hole" 'Capacity Exceeded|4081' put a "$file" 4096 --force-unit-access
full 'write with FUA of 8 blocks at LBA 4096'
check "room for 8 of 16 blocks" eval 'truncate -s -32K /srv/filler && sync -f /srv'
check_fails "a Write that finds no room in its middle" 'Capacity Exceeded|4081' \
    nvme write "$file" -s 8192 -c 127 -z 65536 -d /run/long
full 'write of 128 blocks at LBA 8192'
check "  each of its blocks is old or new" old_or_new
check "there is room again" rm /srv/filler
check "  all of it can be written" eval 'nvme write "$file" -s 8192 -c 127 -z 65536 -d /run/long && holds c "$file" 8312'
check "  also with FUA" eval 'put a "$file" 4096 --force-unit-access && holds a "$file" 4096'

check "a sparse file: write, Flush; write with FUA" \
    eval 'put a "$file" 0 && put a "$file" 4096 && flush "$file" && put b "$file" 8192 --force-unit-access'
check "the power goes: what is written is lost" flaky weakfs "$under_fs" drop_writes
check "a Write that is not flushed" put c "$file" 16384
kill -9 "$rblkd"
wait "$rblkd" 2>/dev/null
check "nvme disconnect" nvme disconnect -n $nqn
check "umount" wait_for 20 umount /srv
check "the power is back" eval 'well weakfs $under_fs && blockdev --flushbufs /dev/mapper/weakfs'
must "mount" mount /dev/mapper/weakfs /srv
begin </dev/null
check "what was flushed is there" eval 'holds a "$file" 0 && holds a "$file" 4096'
check "  and what was written with FUA" holds b "$file" 8192
check "what was not flushed is there or not, and nothing else" \
    eval 'get "$file" 16384 && { cmp /run/got /run/c || cmp -n 4096 /run/got /dev/zero; }'

check "nvme disconnect" nvme disconnect -n $nqn
rblkd_done "$base"
done_testing
