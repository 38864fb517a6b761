# vm: on=6.1/rxe also=6.12/siw needs=rblkd,rblkctl
# A kernel host with native multipath, and two rblkd that share a file: it makes one disk of them with two paths, follows
# the ANA states that are set while fio writes and verifies, and lives on when one rblkd is killed, or stopped for longer
# than an association lives.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:paths
first=$PORT second=$((PORT + 1))
declare -A node

fabric
nvme_up
grep -q Y /sys/module/nvme_core/parameters/multipath || skip_all "this kernel's nvme has no multipath"
disks 96 16
base=$(resources)

# start NAME PORT ID STATE: one of the two, of which each has ids of its own
start() {
    cat >"/run/rblk/$1.yaml" <<END
version: 1
control_socket: /run/rblk/$1.sock
controller_ids: {min: $3, max: $(($3 + 99))}
portals:
  - {name: $1, address: $TARGET, port: $2}
subsystems:
  - nqn: $nqn
    serial: TWOPATHS
    allow_any_host: true
    ana_groups: [{id: 1, state: $4}]
    namespaces:
      - {nsid: 1, file: $file, shared: true, ana_group: 1}
END
    "$(program rblkd)" --config "/run/rblk/$1.yaml" >>/run/rblkd.log 2>&1 </dev/null &
    node[$1]=$!
    wait_for 20 eval "rdma resource show cm_id | grep -q 'state LISTEN.*:$2'"
}
# state NAME STATE: of the group, through that node
state() { rblkctl ana set $nqn 1 "$2" --socket "/run/rblk/$1.sock"; }
# paths: how many the disk has; path CTRL: the state that the host takes one for
paths() { find /sys/class/nvme/nvme*/ -maxdepth 1 -name 'nvme*c*n1' | wc -l; }
path() { cat /sys/class/nvme/"$1"/nvme*c*n1/ana_state; }
live() { [ "$(cat /sys/class/nvme/"$1"/state)" = live ]; }
path_is() { [ "$(path "$1")" = "$2" ]; }
# served NAME: reads that it has done
served() {
    rblkctl list namespaces -o json --socket "/run/rblk/$1.sock" | sed -n 's/.*"reads": *\([0-9]*\).*/\1/p'
}
# whether a read goes through that node now; a read of another process may have gone there, too
goes_through() {
    local before
    before=$(served "$1")
    dd if="$disk" of=/dev/null bs=4k count=1 iflag=direct && [ "$(served "$1")" -gt "$before" ]
}

mkdir -p /run/rblk
must "the first rblkd listens" start left "$first" 1 optimized
must "the second, on the same file" start right "$second" 1000 inaccessible
must "connect to one" nvme_connect $nqn --reconnect-delay 1 --ctrl-loss-tmo 300
left=$(nvme_ctrl $nqn)
disk=$(nvme_disk "$left")
PORT=$second must "connect to the other" nvme_connect $nqn --reconnect-delay 1 --ctrl-loss-tmo 300
right=$(nvme_ctrl $nqn)
check "two controllers" test "$left" != "$right"
check "  of one disk" wait_for 20 eval '[ "$(paths)" = 2 ]'
check "  the states are known" wait_for 20 eval "path_is $left optimized && path_is $right inaccessible"

fio_begin "$disk" 4k 16 30
check "I/O goes through the optimized path" wait_for 20 goes_through left
check "the other is made optimized, too" state right optimized
check "  the host hears of it" wait_for 20 path_is "$right" optimized
check "the first is made inaccessible" state left inaccessible
check "  the host hears of it" wait_for 20 path_is "$left" inaccessible
check "  I/O goes through the other" wait_for 20 goes_through right
check "the first is made non-optimized" state left non_optimized
check "  the host hears of it" wait_for 20 path_is "$left" non-optimized
kill -9 "${node[right]}"
wait "${node[right]}" 2>/dev/null
check "the optimized one is killed: I/O goes through what is left" wait_for 20 goes_through left
check "it comes back" start right "$second" 1000 optimized
check "  and is used again" wait_for 20 goes_through right
kill -STOP "${node[right]}"
check "the optimized one is stopped: its association ends" wait_for 60 eval "! live $right"
check "  I/O goes through what is left" wait_for 60 goes_through left
kill -CONT "${node[right]}"
check "it goes on: the host connects again" wait_for 60 live "$right"
check "  and uses it again" wait_for 60 goes_through right
check "fio verified everything" fio_end 120
check "disconnect" nvme disconnect -n $nqn
for name in left right; do
    rblkd=${node[$name]}
    [ $name = left ] && check "the first rblkd stops when asked" rblkd_stop
done
rblkd_done "$base"
done_testing
