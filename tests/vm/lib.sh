# shellcheck shell=bash
# What test scripts use inside a machine: results, modules, fabrics, the kernel's own target and host, fio. A script
# starts with `. tests/vm/lib.sh` and ends with `done_testing`. The environment describes the machine: FABRIC, ROLE
# (host, or target in a pair), NODE, OUT (shared with the host and the other machine).

PEER=10.77.0.$((3 - NODE)) SELF=10.77.0.$NODE
# the target's address: this machine, or the other machine of a pair
[ "$TWO" = yes ] && TARGET=10.77.0.1 || TARGET=$SELF
PORT=4420
BUILD=${BUILD:-$VM_REPO/build/dev}

# --- results -------------------------------------------------------------------------------------------------------

tests=0 failed=0

# look_at_clock: puts the centiseconds since boot into `now`. A fork, even of a shell, is expensive under translation,
# so neither this nor the polling functions fork.
look_at_clock() { read -r now _ </proc/uptime; now=${now/./}; }
look_at_clock
t_last=$now

# result WHAT OK: one TAP line with the seconds since the one before
result() {
    look_at_clock
    tests=$((tests + 1))
    [ "$2" = ok ] || failed=$((failed + 1))
    printf '%s %d - %s # %d.%02ds\n' "$2" $tests "$1" $(((now - t_last) / 100)) $(((now - t_last) % 100))
    t_last=$now
}
ok() { result "$1" ok; }
not_ok() { touch "$OUT/failed"; result "$1" "not ok"; }
has_failed() { [ -e "$OUT/failed" ]; } # here, or on the other machine of a pair
note() { printf '# %s\n' "$*"; }
skip_all() { echo "1..0 # SKIP $*"; exit 77; }

# The kernel's messages from here on: those after a marker line.
dmesg_mark() { echo "mark=$EPOCHREALTIME" | tee /dev/kmsg; }
dmesg_since() { dmesg | sed "1,/$1\$/d"; }

# check WHAT COMMAND...: the command succeeds; its output is shown only if it failed
check() {
    local what=$1 rc mark="check $((tests + 1))"; shift
    echo "$mark" >/dev/kmsg
    "$@" >/run/said 2>&1
    rc=$?
    [ $rc != 0 ] || { ok "$what"; return; }
    not_ok "$what"
    note "exit $rc of: $*"
    tail -n 12 /run/said | cut -c1-200 | sed 's/^/#   /'
    dmesg_since "$mark" | tail -n 12 | sed 's/^/#   dmesg: /'
    return 1
}

# must WHAT COMMAND...: as check, but a failure ends the script
must() { check "$@" || done_testing; }

# check_fails WHAT PATTERN COMMAND...: it fails with a message that matches
check_fails() {
    local what=$1 pattern=$2; shift 2
    if "$@" >/run/said 2>&1; then
        not_ok "$what"
        note "succeeded: $*"
    elif grep -qE -- "$pattern" /run/said; then
        ok "$what"
    else
        not_ok "$what"
        note "no '$pattern' in:"
        sed 's/^/#   /' /run/said
    fi
}

# is WHAT GOT WANTED
is() {
    if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1"; note "got '$2', wanted '$3'"; fi
}

# like WHAT TEXT PATTERN
like() {
    if grep -qE -- "$3" <<<"$2"; then ok "$1"; else not_ok "$1"; note "no '$3' in:"; sed 's/^/#   /' <<<"$2"; fi
}

done_testing() {
    local bad
    # a complaint of the kernel is a finding even if every command succeeded
    bad=$(dmesg | grep -E 'BUG:|WARNING:|Oops|general protection|blocked for more than|refcount_t' |
        if [ -e /run/siw-was-deaf ]; then grep -vE 'siw_cep_put|refcount_t|refcount_warn'; else cat; fi | head -5)
    [ -z "$bad" ] || { not_ok "the kernel has nothing to complain about"; sed 's/^/#   /' <<<"$bad"; }
    [ ! -e /run/notes ] || sed 's/^/# /' /run/notes
    echo "1..$tests"
    [ $failed = 0 ]
    exit
}

# --- waiting -------------------------------------------------------------------------------------------------------

# pause SECONDS: sleeps without starting a program; succeeds
mkfifo /run/never 2>/dev/null
exec {never}<>/run/never
pause() { read -rt "$1" <&"$never" || :; }

# within SECONDS COMMAND...: waits until the command succeeds, for at most that time. A machine that the host does not
# schedule makes no progress: between two attempts no more than half a second counts.
within() {
    local left=$(($1 * 100)) now last took; shift
    look_at_clock
    until "$@" >/dev/null 2>&1; do
        [ $left -gt 0 ] || return 1
        last=$now
        pause 0.1
        look_at_clock
        took=$((now - last))
        [ $took -le 50 ] || took=50
        left=$((left - took))
    done
}

# wait_for SECONDS COMMAND...: the same where the time itself is not tested: SECONDS suffice on an idle machine, and a
# translated machine on a busy host gets several times that
wait_for() {
    local seconds=$(($1 * 6)); shift
    within $seconds "$@"
}

# The machines of a pair meet at named points; the shared folder carries the names.
reached() { touch "$OUT/point.$1"; }
await() { wait_for "${2:-60}" test -e "$OUT/point.$1" || { not_ok "the other machine reached '$1'"; done_testing; }; }

# Ends this machine as a power cut does: nothing is flushed, no process is notified. Checks that were shown so far count.
power_cut() {
    echo "1..$tests"
    echo "$failed" >"$OUT/status.$ROLE"
    sync -f "$OUT"
    echo o >/proc/sysrq-trigger
    sleep 60
}

# --- modules and fabrics -------------------------------------------------------------------------------------------

need_modules() { local m; for m; do modprobe -q "$m" || skip_all "no module $m"; done; }

# fabric [rxe|siw]: an RDMA device over eth0, ready for use
fabric() {
    local kind=${1:-$FABRIC}
    if [ "$kind" = rxe ]; then
        # 6.1's rxe requests crc32 by a name that only crc32_generic provides
        modprobe -q crc32_generic
        need_modules rdma_rxe
    else
        need_modules siw
    fi
    modprobe -a rdma_cm rdma_ucm ib_uverbs
    rdma link add "${kind}0" type "$kind" netdev eth0 || skip_all "no $kind device"
    wait_for 10 grep -q ACTIVE "/sys/class/infiniband/${kind}0/ports/1/state" || skip_all "$kind does not come up"
    wait_for 10 test -e /dev/infiniband/rdma_cm
}

# resources: how many QPs, MRs, PDs and CM ids exist; equal before and after means that nothing leaked. CQs are left
# out: the kernel keeps those of its own drivers in a pool for as long as the device exists. Which number a device has
# is no resource.
resources() { rdma resource show | sed 's/^[0-9]*: //;s/ cq [0-9]*//;s/ ctx [0-9]*//;s/ srq [0-9]*//'; }

# left_nothing BASE: the resources are again as they were
left_nothing() {
    local base=$1
    wait_for 10 eval '[ "$(resources)" = "$base" ]'
    is "no RDMA resource is left" "$(resources)" "$base"
}

# --- the kernel's target -------------------------------------------------------------------------------------------

nvmet=/sys/kernel/config/nvmet

nvmet_up() {
    need_modules configfs nvmet nvmet-rdma
    mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
}

# nvmet_subsystem NQN DEVICE...: a subsystem open to everyone; namespace i is the i-th device or file
nvmet_subsystem() {
    local dir=$nvmet/subsystems/$1 n=0 dev; shift
    mkdir "$dir"
    echo 1 >"$dir/attr_allow_any_host"
    for dev; do
        n=$((n + 1))
        mkdir "$dir/namespaces/$n"
        echo -n "$dev" >"$dir/namespaces/$n/device_path"
        echo 1 >"$dir/namespaces/$n/enable" || return
    done
}

# nvmet_port ADDRESS [IN-CAPSULE-BYTES] [PORT]: publishes all existing subsystems; last, so that a host sees none half
# made
nvmet_port() {
    local dir=$nvmet/ports/1 sub
    mkdir "$dir"
    echo rdma >"$dir/addr_trtype"
    echo ipv4 >"$dir/addr_adrfam"
    echo "$1" >"$dir/addr_traddr"
    echo "${3:-$PORT}" >"$dir/addr_trsvcid"
    [ -z "${2:-}" ] || echo "$2" >"$dir/param_inline_data_size"
    for sub in "$nvmet"/subsystems/*; do ln -s "$sub" "$dir/subsystems/" || return; done
}

nvmet_down() {
    local d
    for d in "$nvmet"/ports/*/subsystems/*; do [ ! -e "$d" ] || rm "$d"; done
    for d in "$nvmet"/ports/* "$nvmet"/subsystems/*/namespaces/* "$nvmet"/subsystems/*; do [ ! -e "$d" ] || rmdir "$d"; done
}

# ram_disk MIB [BLOCK-SIZE [ATTRIBUTE=VALUE...]]: a memory-backed block device that discards, null_blk's; prints its path
ram_disk() {
    local dir n fact
    modprobe -q null_blk nr_devices=0
    mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
    for n in {0..9}; do mkdir "/sys/kernel/config/nullb/nullb$n" 2>/dev/null && break; done
    dir=/sys/kernel/config/nullb/nullb$n
    echo "$1" >"$dir/size"
    echo "${2:-512}" >"$dir/blocksize"
    echo 1 >"$dir/memory_backed"
    echo 1 >"$dir/discard"
    for fact in "${@:3}"; do echo "${fact#*=}" >"$dir/${fact%=*}"; done
    echo 1 >"$dir/power"
    wait_for 5 test -b "/dev/nullb$n"
    echo "/dev/nullb$n"
}

# --- the kernel's host ---------------------------------------------------------------------------------------------

nvme_up() {
    need_modules nvme-rdma
    wait_for 5 test -e /dev/nvme-fabrics
    host_identity
}

# the identity of this machine, as nvme-cli's package would have written it
host_identity() {
    mkdir -p /etc/nvme
    echo "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000$NODE" >/etc/nvme/hostnqn
    echo "00000000-0000-4000-8000-00000000000$NODE" >/etc/nvme/hostid
}

# twice COMMAND...: the accepting side of siw answers before it looks for data: a Connect that arrives in between stays
# unnoticed until the host gives it up after 60 s. Only that case is tried again.
twice() {
    local mark
    mark=$(dmesg_mark)
    "$@" && return
    [ "$FABRIC" = siw ] && dmesg_since "$mark" | grep -qE 'QID [0-9]+ timeout' || return
    echo "siw lost a Connect: $* was tried again" >>/run/notes
    "$@"
}

nvme_discover() { twice nvme discover -t rdma -a "$TARGET" -s "$PORT" "$@"; }

# nvme_connect NQN [OPTION...]: prints the controller's name once its namespaces are scanned
nvme_connect() {
    local nqn=$1; shift
    twice nvme connect -t rdma -a "$TARGET" -s "$PORT" -n "$nqn" "$@" >/run/connect 2>&1 || { cat /run/connect; return 1; }
    nvme_ready "$nqn"
}

# nvme_connect_as HOSTNQN HOSTID NQN [OPTION,...]: another host's connection from this machine. By hand, for bookworm's
# nvme-cli calls a subsystem connected when any host is connected to it.
nvme_connect_as() {
    local options="transport=rdma,traddr=$TARGET,trsvcid=$PORT,hostnqn=$1,hostid=$2,nqn=$3${4:+,$4}"
    twice eval "echo '$options' >/dev/nvme-fabrics" &&
        nvme_ready "$3"
}

nvme_ready() {
    local ctrl
    wait_for 5 nvme_ctrl "$1" || return
    ctrl=$(nvme_ctrl "$1")
    wait_for 10 grep -q live "/sys/class/nvme/$ctrl/state" && wait_for 10 nvme_disk "$ctrl" && echo "$ctrl"
}

# nvme_ctrl NQN: the newest controller connected to it
nvme_ctrl() {
    local c nqn found=''
    for c in /sys/class/nvme/nvme*; do
        read -r nqn 2>/dev/null <"$c/subsysnqn" && [ "$nqn" = "$1" ] && found=${c##*/}
    done
    [ -n "$found" ] && echo "$found"
}

# nvme_disk CTRL [NSID]: its block device. With native multipath the disk belongs to the subsystem, hence the detour.
nvme_disk() {
    local d want=${2:-1} nqn its nsid
    read -r nqn <"/sys/class/nvme/$1/subsysnqn" || return
    for d in /sys/block/nvme*n*; do
        [ -b "/dev/${d##*/}" ] && read -r its <"$d/device/subsysnqn" && [ "$its" = "$nqn" ] &&
            read -r nsid <"$d/nsid" && [ "$nsid" = "$want" ] && echo "/dev/${d##*/}" && return
    done 2>/dev/null
    return 1
}

# --- load ----------------------------------------------------------------------------------------------------------

# fio_verify FILE BLOCK-SIZE DEPTH SIZE [OPTION...]: writes with checksums, reads all of it back and compares. FILE is -
# if an option names the file.
fio_verify() {
    local dev=$1 bs=$2 depth=$3 size=$4; shift 4
    [ "$dev" = - ] || set -- --filename="$dev" "$@"
    fio --name=verify --rw=randwrite --bs="$bs" --iodepth="$depth" --size="$size" --ioengine=libaio \
        --direct=1 --verify=crc32c --verify_fatal=1 --do_verify=1 --randrepeat=0 --group_reporting --minimal "$@"
}

# fio_begin FILE BLOCK-SIZE DEPTH SECONDS [OPTION...]: the same in the background, throttled to fill the time: first half writing,
# second half verifying. (Not by fio's --time_based, with which the verifying never begins.) Returns when it writes.
fio_begin() {
    local rate=150 before dev=$1 bs=$2 depth=$3 seconds=$4; shift 4
    rm -f /run/fio.rc
    before=$(writes)
    (
        fio_verify "$dev" "$bs" "$depth" $((${bs%k} * rate * seconds / 2))k --rate_iops=$rate "$@" >/run/fio.log 2>&1
        echo $? >/run/fio.rc
    ) &
    wait_for 10 eval "[ \$(writes) -gt $((before + 20)) ]"
}

# writes: how many all disks have done
writes() {
    local n total=0
    while read -r _ _ _ _ _ _ _ n _; do total=$((total + n)); done </proc/diskstats
    echo $total
}

# fio_end [SECONDS]: waits for it; succeeds if it verified everything
fio_end() {
    wait_for "${1:-60}" test -e /run/fio.rc || { echo "fio does not end"; return 1; }
    [ "$(cat /run/fio.rc)" = 0 ] || { cut -c1-300 /run/fio.log; return 1; }
}

# load_begin DISK [OPTION...]: reads, writes and verifies it, 200 I/Os a second in each direction, until load_end; returns
# when it writes
declare -A loads
load_begin() {
    local before disk=$1 out=/run/load.${1##*/}; shift
    before=$(writes)
    rm -f "$out"*
    : >/run/load.steps
    fio --name=load --filename="$disk" --rw=randrw --bs=4k --iodepth=8 --ioengine=libaio --direct=1 --time_based \
        --runtime=3600 --verify=crc32c --verify_backlog=64 --verify_fatal=1 --randrepeat=0 --rate_iops=200 \
        --write_lat_log="$out" --log_unix_epoch=1 --log_avg_msec=50 --log_max_value=1 \
        --output-format=json --output="$out" "$@" >/run/load.out 2>&1 &
    loads[$disk]=$!
    wait_for 10 eval "[ \$(writes) -gt $((before + 20)) ]"
}

# load_step: load_end reports the longest I/O of each step, which ends where the next one begins
load_step() { echo "${EPOCHREALTIME/./}" >>/run/load.steps; }

# load_end WHAT DISK SECONDS: ends it; fio saw no error, no wrong byte, and nothing that waited for so long. The signal is
# for fio's first process only: its job's handler calls malloc(), so a job that is in malloc() hangs, and the first one
# waits 300 s for it.
load_end() {
    local pid=${loads[$2]}
    kill -INT "$pid"
    check "$1: fio ends" wait_for 20 test ! -e "/proc/$pid/exe" || { load_tell; pkill -9 -x fio; }
    check "$1: fio saw no error, and nothing that waited for $3 s" \
        tests/vm/load-report "/run/load.${2##*/}" /run/load.steps "$3" && sed "s/^/# /" /run/said
}

# load_tell: where an I/O waits, if one does: the host's paths, their requests, and what each fio is about
load_tell() {
    local task
    mount -t debugfs debugfs /sys/kernel/debug
    {
        grep -H . /sys/class/nvme/nvme*/state /sys/class/nvme/nvme*/nvme*c*n*/ana_state /sys/block/nvme*/inflight
        find /sys/kernel/debug/block/nvme* -name busy -exec grep -H . {} +
        for task in $(pgrep -x fio); do grep -H . "/proc/$task/task"/*/{wchan,syscall,stack}; done
    } 2>/dev/null | sed 's/^/#   /'
}
