# vm: on=6.1/rxe also=6.12/siw needs=rblkd,rblkctl
# A kernel host with native multipath, and two rblkd that share a file: it makes one disk of them with two paths, follows
# the ANA states that are set while fio writes and verifies, and lives on when one rblkd is killed, or stopped for longer
# than an association lives.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:paths

fabric
nvme_up
grep -q Y /sys/module/nvme_core/parameters/multipath || skip_all "this kernel's nvme has no multipath"
disks 96 16
base=$(resources)

# state NAME STATE: of the group, through that node
state() { node_ctl "$1" ana set $nqn 1 "$2"; }
# paths: how many the disk has
paths() { find /sys/class/nvme/nvme*/ -maxdepth 1 -name 'nvme*c*n1' | wc -l; }
# served NAME: reads that it has done
served() { node_ctl "$1" list namespaces -o json | sed -n 's/.*"reads": *\([0-9]*\).*/\1/p'; }
# whether a read goes through that node now; a read of another process may have gone there, too
goes_through() {
    local before
    before=$(served "$1")
    dd if="$disk" of=/dev/null bs=4k count=1 iflag=direct && [ "$(served "$1")" -gt "$before" ]
}

must "the first rblkd listens" node_start left 1 "state: optimized" "shared: true"
must "the second, on the same file" node_start right 1000 "state: inaccessible" "shared: true"
nodes_connect
check "two controllers" test "$left" != "$right"
check "  of one disk" wait_for 20 eval '[ "$(paths)" = 2 ]'

fio_begin "$disk" 4k 16 30
check "I/O goes through the optimized path" wait_for 20 goes_through left
check "the other is made optimized, too" state right optimized
check "  the host hears of it" wait_for 20 path_is "$right" optimized
check "the first is made inaccessible" state left inaccessible
check "  the host hears of it" wait_for 20 path_is "$left" inaccessible
check "  I/O goes through the other" wait_for 20 goes_through right
check "the first is made non-optimized" state left non_optimized
check "  the host hears of it" wait_for 20 path_is "$left" non-optimized
node_kill right
check "the optimized one is killed: I/O goes through what is left" wait_for 20 goes_through left
check "it comes back" node_start right 1000 "state: optimized" "shared: true"
check "  and is used again" wait_for 20 goes_through right
kill -STOP "${node[right]}"
check "the optimized one is stopped: its association ends" wait_for 60 eval "! path_live $right"
check "  I/O goes through what is left" wait_for 60 goes_through left
kill -CONT "${node[right]}"
check "it goes on: the host connects again" wait_for 60 path_live "$right"
check "  and uses it again" wait_for 60 goes_through right
check "fio verified everything" fio_end 120
check "disconnect" nvme disconnect -n $nqn
for name in left right; do
    rblkd=${node[$name]}
    [ $name = left ] && check "the first rblkd stops when asked" rblkd_stop
done
rblkd_done "$base"
done_testing
