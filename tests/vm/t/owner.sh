# vm: on=6.12/rxe also=6.1/rxe,6.1/siw,6.12/siw needs=rblkd,rblkctl
# A group with one owner, of two rblkd that a kernel host has as two paths with native multipath: the group is given away
# under fio, its owner is killed and ended, and fio sees neither an error nor a wrong byte. A reservation goes with it.
# Arguments are the numbers of moves and of kills: tests/vm/run-vm --timeout 6000 tests/vm/t/owner.sh 100 20
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:owner
MOVES=${1:-6} KILLS=${2:-1}

fabric
nvme_up
grep -q Y /sys/module/nvme_core/parameters/multipath || skip_all "this kernel's nvme has no multipath"
disks 64 16
base=$(resources)

state_of() { node_ctl "$1" group list -o json | jq -r '.groups[0].state' 2>/dev/null; }
is() { [ "$(state_of "$1")" = "$2" ]; }
# turn: the other one is the owner
turn() { local was=$owner; owner=$other other=$was; }

must "the first rblkd listens" node_start left 1 "owner: lock"
must "the second, on the same file" node_start right 1000 "owner: lock"
check "the first is the owner" is left owner
nodes_connect
check "register" nvme resv-register "$disk" -n 1 --nrkey=7 --rrega=0
check "reserve" nvme resv-acquire "$disk" -n 1 --crkey=7 --rtype=1 --racqa=0

owner=left other=right
load_begin "$disk" --size=8m
for i in $(seq "$MOVES"); do
    load_step
    check "move $i, to the $other one" node_ctl $owner group give $nqn 1 --quiet
    check "  which is the owner" wait_for 20 is $other owner
    turn
    pause 0.5
done
load_end "$MOVES moves" "$disk" 20
like "the reservation went with it" "$(nvme resv-report "$disk" -n 1 -e 2>&1)" 'regctl *: *1'

for i in $(seq "$KILLS"); do
    load_begin "$disk" --size=8m
    node_kill $owner
    check "the owner is killed: the other is the owner" wait_for 20 is $other owner
    pause 2
    load_end "kill $i" "$disk" 20
    check "the dead one comes back" node_start $owner $((1000 + i * 1000)) "owner: lock"
    check "  and stands by" wait_for 20 is $owner "standing by"
    check "  the host has both paths" wait_for 60 eval "path_live $left && path_live $right"
    turn
done

load_begin "$disk" --size=8m
kill "${node[$owner]}"
check "the owner ends: the other is the owner" wait_for 20 is $other owner
pause 2
load_end "ended" "$disk" 20
check "disconnect" nvme disconnect -n $nqn
rblkd=${node[$other]}
check "the last rblkd stops when asked" rblkd_stop
left_nothing "$base"
done_testing
