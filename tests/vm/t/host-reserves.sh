# vm: on=6.12/rxe also=6.1/rxe,6.1/siw,6.12/siw needs=rblkd,rblkctl
# Two hosts share a namespace: reservations by nvme-cli and by the block layer's own calls, with what each type forbids
# the other host, preempted, cleared and kept over a restart; write protection; Compare, Verify, Write Uncorrectable and
# Copy from a kernel host.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:shared
friend=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-0000000000aa
need nvme jq python3

fabric
# without, the kernel takes both hosts for two paths of one
modprobe nvme-core multipath=N
nvme_up
disks 32 32
base=$(resources)
mkdir -p /run/state
must "rblkd listens" rblkd_start < <(one_subsystem $nqn "file: $file"; echo "state_directory: /run/state")
# disk CTRL: its own, for here each controller has one
disk() { ls -d "/sys/class/nvme/$1/$1"n* | sed 's|.*/|/dev/|'; }
must "one host" nvme_connect $nqn --nr-io-queues=2 --reconnect-delay 2
one=$(nvme_ctrl $nqn)
must "and another" nvme_connect_as $friend 00000000-0000-4000-8000-0000000000aa $nqn nr_io_queues=2,reconnect_delay=2
two=$(nvme_ctrl $nqn)
check "each has its disk" wait_for 10 eval "[ -b \"\$(disk $one)\" ] && [ -b \"\$(disk $two)\" ]"
one_disk=$(disk "$one") two_disk=$(disk "$two")
[ "$one_disk" != "$two_disk" ] && [ -b "$two_disk" ] || done_testing

conflict='RESERVATION_CONFLICT|Reservation Conflict|0x?83'
refused='Invalid exchange'
write_to() { dd if=/dev/zero of="$1" bs=4k count=1 oflag=direct; }
read_from() { dd if="$1" of=/dev/null bs=4k count=1 iflag=direct; }
# reservation: registrants and type, as the target reports them
reservation() {
    nvme resv-report "$one_disk" -n 1 --eds -o json | jq -r '"\(.regctl) registered, type \(.rtype)"'
}

# --- what a state directory keeps beside ---------------------------------------------------------------------------

events=$(nvme persistent-event-log "/dev/$one" --action=1 --log_len=4096 2>&1)
like "nvme persistent-event-log: the start" "$events" 'Power On'
like "  and a SMART snapshot" "$events" 'SMART'
check "  released" nvme persistent-event-log "/dev/$one" --action=2 --log_len=0
is "smart-log: the first power cycle" "$(nvme smart-log "/dev/$one" -o json | jq -r .power_cycles)" 1

# --- nvme-cli ------------------------------------------------------------------------------------------------------

is "no host is registered" "$(reservation)" "0 registered, type 0"
check "one registers" nvme resv-register "$one_disk" -n 1 --nrkey=0xa1
check "two registers" nvme resv-register "$two_disk" -n 1 --nrkey=0xb2
check "one acquires: write exclusive" nvme resv-acquire "$one_disk" -n 1 --crkey=0xa1 --rtype=1
is "  two registrants, type 1" "$(reservation)" "2 registered, type 1"
check "  one writes" write_to "$one_disk"
check "  two reads" read_from "$two_disk"
check_fails "  two does not write" "$refused" write_to "$two_disk"
check_fails "  nor acquire" "$conflict" nvme resv-acquire "$two_disk" -n 1 --crkey=0xb2 --rtype=1
check_fails "  a wrong key acquires nothing" "$conflict" nvme resv-acquire "$one_disk" -n 1 --crkey=0xa2 --rtype=1
check "two preempts one: exclusive access" nvme resv-acquire "$two_disk" -n 1 --crkey=0xb2 --prkey=0xa1 --racqa=1 --rtype=2
is "  one registrant, type 2" "$(reservation)" "1 registered, type 2"
check "  two writes" write_to "$two_disk"
check_fails "  one does not read" "$refused" read_from "$one_disk"
check_fails "  nor release" "$conflict" nvme resv-release "$one_disk" -n 1 --crkey=0xa1 --rtype=2
check "two releases" nvme resv-release "$two_disk" -n 1 --crkey=0xb2 --rtype=2
is "  it stays registered" "$(reservation)" "1 registered, type 0"
check "  one reads" read_from "$one_disk"
check "  one writes" write_to "$one_disk"
check "two clears" nvme resv-release "$two_disk" -n 1 --crkey=0xb2 --rrela=1
is "  no host is registered" "$(reservation)" "0 registered, type 0"

# --- the block layer's own calls -----------------------------------------------------------------------------------

pr() { tests/vm/pr "$@"; }
check "pr: one registers" pr "$one_disk" register 0 0x1a
check "pr: one reserves: write exclusive, registrants only" pr "$one_disk" reserve 0x1a 3
is "  one registrant, type 3" "$(reservation)" "1 registered, type 3"
check_fails "  two does not write" "$refused" write_to "$two_disk"
check_fails "  nor reserve" 'refused, status' pr "$two_disk" reserve 0x2b 3
check "  two registers" pr "$two_disk" register 0 0x2b
check "  and writes" write_to "$two_disk"
n_live() { [ "$(cat "/sys/class/nvme/$one/state" "/sys/class/nvme/$two/state" | grep -c live)" = "$1" ]; }
kill -9 "$rblkd"
check "rblkd is killed: both hosts notice" wait_for 20 n_live 0
check "  it starts again" rblkd_start </dev/null
check "  the hosts are back" wait_for 20 n_live 2
is "  it has kept the reservation" "$(reservation)" "2 registered, type 3"
check "  two unregisters" pr "$two_disk" register 0x2b 0
check_fails "  and does not write" "$refused" write_to "$two_disk"
check "  two registers again" pr "$two_disk" register 0 0x2c
check "pr: two preempts one, and aborts what it had: exclusive access" pr "$two_disk" preempt-abort 0x2c 0x1a 2
is "  one registrant, type 2" "$(reservation)" "1 registered, type 2"
check_fails "  one does not read" "$refused" read_from "$one_disk"
check "pr: two releases" pr "$two_disk" release 0x2c 2
check "  one reads" read_from "$one_disk"
check "pr: two clears" pr "$two_disk" clear 0x2c
is "  no host is registered" "$(reservation)" "0 registered, type 0"

# --- write protection ----------------------------------------------------------------------------------------------

protection() { nvme get-feature "/dev/$one" -n 1 -f 0x84; }
sees() { [ "$(blockdev --getro "$one_disk") $(blockdev --getro "$two_disk")" = "$1 $1" ]; }
check "one protects the namespace" nvme set-feature "/dev/$one" -n 1 -f 0x84 -v 1
like "  it is protected" "$(protection)" 'value: *0?x?0*1$'
check "  both hosts' disks become read-only" wait_for 20 sees 1
check_fails "  and a write that comes all the same is refused" 'WRITE_PROTECTED|Write Protected|0x?20' \
    nvme write-zeroes "$two_disk" -n 1 -s 0 -c 7
check "  two reads" read_from "$two_disk"
check "two takes the protection away" nvme set-feature "/dev/$two" -n 1 -f 0x84 -v 0
check "  both disks can be written" wait_for 20 sees 0
check "  one writes" write_to "$one_disk"

# --- Compare, Verify, Write Uncorrectable, Copy --------------------------------------------------------------------

head -c 8192 /dev/urandom >/run/data
check "8 KiB of data" dd if=/run/data of="$one_disk" bs=4k oflag=direct conv=notrunc
compare() { nvme compare "$two_disk" -n 1 -s "$1" -c 7 -z 4096 -d /run/block; }
dd if=/run/data of=/run/block bs=4k count=1 2>/dev/null
check "Compare with what is there" compare 0
check_fails "  and with what is not" 'COMPARE_FAILED|Compare Fail|0x?285' compare 8
check "Verify" nvme verify "$two_disk" -n 1 -s 0 -c 15
check "Copy of two ranges" nvme copy "$two_disk" -n 1 --sdlba=1024 --slbs=8,0 --blocks=7,7
check "  is a copy, in the order asked for" eval "(tail -c 4096 /run/data; head -c 4096 /run/data) |
    cmp - <(dd if=$one_disk bs=4k skip=128 count=2 iflag=direct)"
check "Write Uncorrectable" nvme write-uncor "$one_disk" -n 1 -s 2048 -c 7
check_fails "  two reads an error there" 'No data available|Input/output error' \
    dd if="$two_disk" of=/dev/null bs=4k skip=256 count=1 iflag=direct
check_fails "  Verify finds it" 'READ_ERROR|Unrecovered Read|0x?281' nvme verify "$two_disk" -n 1 -s 2040 -c 15
check "  its neighbour is good" dd if="$two_disk" of=/dev/null bs=4k skip=257 count=1 iflag=direct
check "  a write heals it" dd if=/run/block of="$two_disk" bs=4k seek=256 oflag=direct conv=notrunc
check "  what was written is there" eval "cmp -n 4096 -i $((256 * 4096)):0 $one_disk /run/block"

check "nvme disconnect" nvme disconnect -n $nqn
rblkd_done "$base"
done_testing
