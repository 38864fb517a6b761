# vm: on=6.12/rxe also=6.1/rxe needs=rblkd,rblkctl
# A group with one owner, of two rblkd that a kernel host has as two paths with native multipath: the group is given away
# under fio, its owner is killed and ended, and fio sees neither an error nor a wrong byte. A reservation goes with it.
# An argument is the number of moves: tests/vm/run-vm --timeout 6000 tests/vm/t/owner.sh 100
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:owner
first=$PORT second=$((PORT + 1))
MOVES=${1:-6}
declare -A node

fabric
nvme_up
grep -q Y /sys/module/nvme_core/parameters/multipath || skip_all "this kernel's nvme has no multipath"
disks 64 16
base=$(resources)
mkdir -p /run/rblk/group

# start NAME PORT ID: one of the two
start() {
    cat >"/run/rblk/$1.yaml" <<YAML
version: 1
control_socket: /run/rblk/$1.sock
group_directory: /run/rblk/group
controller_ids: {min: $3, max: $(($3 + 99))}
portals:
  - {name: $1, address: $TARGET, port: $2}
subsystems:
  - nqn: $nqn
    serial: ONEOWNER
    allow_any_host: true
    ana_groups: [{id: 1, owner: lock}]
    namespaces:
      - {nsid: 1, file: $file, ana_group: 1}
YAML
    "$(program rblkd)" --config "/run/rblk/$1.yaml" >>/run/rblkd.log 2>&1 </dev/null &
    node[$1]=$!
    wait_for 20 eval "rdma resource show cm_id | grep -q 'state LISTEN.*:$2'"
}
ctl() { local name=$1; shift; rblkctl "$@" --socket "/run/rblk/$name.sock"; }
state_of() { ctl "$1" group list -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["groups"][0]["state"])' 2>/dev/null; }
is() { [ "$(state_of "$1")" = "$2" ]; }
path_is() { [ "$(cat /sys/class/nvme/"$1"/nvme*c*n1/ana_state)" = "$2" ]; }

# load: begins to write and verify; calm WHAT: ends that, and looks at what it saw
load() {
    fio --name=t --filename="$disk" --rw=randrw --bs=4k --iodepth=8 --ioengine=libaio --direct=1 --size=8m --time_based \
        --runtime=3600 --verify=crc32c --verify_backlog=64 --verify_fatal=1 --randrepeat=0 --rate_iops=200 \
        --output-format=json --output=/run/fio.json >/run/fio.out 2>&1 &
    sleep 2
}
calm() {
    pkill -INT fio
    wait_for 60 eval '! pgrep -x fio' || note "fio goes on"
    python3 - >/run/result <<'P'
import json, sys
text = open("/run/fio.json").read()
job = json.loads(text[text.index("{"):])["jobs"][0]
longest = max(job[way]["clat_ns"]["max"] for way in ("read", "write")) / 1e9
print(f"error {job['error']}, {job['write']['total_ios']} writes, longest {longest:.2f} s")
sys.exit(job["error"] != 0 or not job["write"]["total_ios"] or longest > 20)
P
    check "$1: fio saw no error, and nothing that waited for a time" [ $? = 0 ]
    note "$1: $(cat /run/result)"
}

must "the first rblkd listens" start left "$first" 1
must "the second, on the same file" start right "$second" 1000
check "the first is the owner" is left owner
must "connect to one" nvme_connect $nqn --reconnect-delay 1 --ctrl-loss-tmo 300
left=$(nvme_ctrl $nqn)
disk=$(nvme_disk "$left")
PORT=$second must "connect to the other" nvme_connect $nqn --reconnect-delay 1 --ctrl-loss-tmo 300
right=$(nvme_ctrl $nqn)
check "the host knows the states" wait_for 20 eval "path_is $left optimized && path_is $right inaccessible"
check "register" nvme resv-register "$disk" -n 1 --nrkey=7 --rrega=0
check "reserve" nvme resv-acquire "$disk" -n 1 --crkey=7 --rtype=1 --racqa=0

load
for i in $(seq "$MOVES"); do
    if [ $((i % 2)) = 1 ]; then owner=left other=right; else owner=right other=left; fi
    check "move $i, to the $other one" ctl $owner group give $nqn 1 --quiet
    check "  which is the owner" wait_for 20 is $other owner
    sleep 0.5
done
calm "$MOVES moves"
if [ $((MOVES % 2)) = 1 ]; then owner=right other=left; else owner=left other=right; fi
like "the reservation went with it" "$(nvme resv-report "$disk" -n 1 -e 2>&1)" 'regctl *: *1'

load
kill -9 "${node[$owner]}"
wait "${node[$owner]}" 2>/dev/null
check "the owner is killed: the other is the owner" wait_for 20 is $other owner
sleep 2
calm "killed"
check "the dead one comes back" start $owner "$([ $owner = left ] && echo "$first" || echo "$second")" 2000
check "  and stands by" wait_for 20 is $owner "standing by"
check "  the host has both paths" wait_for 60 eval "[ \$(cat /sys/class/nvme/$left/state /sys/class/nvme/$right/state | sort -u) = live ]"
load
kill "${node[$other]}"
check "the owner ends: the other is the owner" wait_for 20 is $owner owner
sleep 2
calm "ended"
check "disconnect" nvme disconnect -n $nqn
rblkd=${node[$owner]}
check "the last rblkd stops when asked" rblkd_stop
left_nothing "$base"
done_testing
