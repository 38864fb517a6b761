# shellcheck shell=bash
# Our own programs inside a machine: configuration, start, stop. A script that starts with `. tests/vm/rblk.sh` has
# lib.sh, too.
. tests/vm/lib.sh

conf=/run/rblk/target.yaml

# program NAME: where the build put it; as installed when there is no build
program() {
    local path
    for path in "$BUILD/target/$1" "$BUILD/tools/$1/$1"; do [ ! -x "$path" ] || [ -d "$path" ] || { echo "$path"; return; }; done
    command -v "$1"
}

# rblkd_start [OPTION...]: with the configuration on stdin, in the background; returns when it is ready. With no
# configuration given (stdin is /dev/null) the one before is used again, as after a crash.
rblkd_start() {
    local new bin before
    mkdir -p /run/rblk
    new=$(cat)
    [ -z "$new" ] || echo "$new" >$conf
    bin=$(program rblkd) || skip_all "no rblkd in $BUILD"
    : >>/run/rblkd.log
    before=$(times_ready)
    "$bin" --config $conf "$@" >>/run/rblkd.log 2>&1 </dev/null &
    rblkd=$!
    # rblkd listens before it has registered its memory, and the counts from here on must not grow by that registration
    { rblkd_listens && wait_for 20 is_ready_after "$before"; } || { tail -n 30 /run/rblkd.log; return 1; }
}

# one_subsystem NQN NAMESPACE...: a configuration with one portal, and one subsystem that any host may use. Namespace i
# is the i-th one: "file: /srv/a.img".
one_subsystem() {
    local n=0 namespace
    cat <<END
version: 1
portals:
  - {name: a, address: $TARGET, port: $PORT}
subsystems:
  - nqn: $1
    portals: [a]
    allow_any_host: true
    namespaces:
END
    for namespace in "${@:2}"; do n=$((n + 1)); echo "      - {nsid: $n, $namespace}"; done
}

# rblkd_serves NQN NAMESPACE...: with this configuration; the script ends where it does not. Sets `base`, the resources
# before.
rblkd_serves() {
    base=$(resources)
    must "rblkd listens" rblkd_start < <(one_subsystem "$@")
}

times_ready() { grep -c 'ready, portals [0-9]' /run/rblkd.log; }
is_ready_after() { [ "$(times_ready)" -gt "$1" ]; }

# The kernel, not rblkd, reports it: a host needs a listening CM id on a real device.
listening() { rdma resource show cm_id 2>/dev/null | grep -q "state LISTEN.*:$PORT"; }
rblkd_listens() { wait_for 20 listening || ! note "rblkd does not listen"; }

# rxe_is_mute: a management datagram that the network card did not take puts rxe's queue pair for them (GSI) into the
# state "error" for good: this machine neither makes nor accepts a connection any more.
rxe_is_mute() { [ "$FABRIC" = rxe ] && rdma resource show qp 2>/dev/null | grep -q 'type GSI state ERR'; }

# rxe_mend: makes the device again, if rxe is mute and only then
rxe_mend() {
    rxe_is_mute || return 0
    echo "rxe had lost its queue pair for connections, and was made again" >>/run/notes
    rdma link delete rxe0 && rdma link add rxe0 type rxe netdev eth0
}

# mended COMMAND...: the command, after rxe_mend
mended() { rxe_mend; "$@"; }

# siw_is_deaf: siw gives a connection that it has not accepted yet the callbacks of its listener. When such a connection
# ends, siw closes the listener, whose CM id then listens without a socket, and its reference counts are wrong ever
# after.
siw_is_deaf() {
    [ "$FABRIC" = siw ] && listening && ! grep -qE ":$(printf %04X "$PORT") 0+:0000 0A " /proc/net/tcp /proc/net/tcp6
}

# host_returns COMMAND...: waits until the command succeeds. Restarts rblkd if siw is deaf, and only then.
host_returns() {
    wait_for 20 "$@" && return
    siw_is_deaf || return
    touch /run/siw-was-deaf
    echo "siw closed the listener of rblkd, which was started again" >>/run/notes
    rblkd_stop && rblkd_start </dev/null && wait_for 20 "$@"
}

# rblkd_stop: as an administrator stops it; fails if it does not end, or ends with an error
rblkd_stop() {
    kill -TERM "$rblkd" 2>/dev/null || return
    wait_for 20 test ! -e "/proc/$rblkd/exe" || { kill -9 "$rblkd"; return 1; }
    wait "$rblkd"
}

rblkd_alive() { [ -e "/proc/$rblkd/exe" ]; }

# rblkd_done: the checks of its target with which every script ends
rblkd_done() {
    local base=$1
    check "rblkd stops when asked" rblkd_stop
    left_nothing "$base"
    if grep -E 'ERROR: (Address|Leak|Undefined)Sanitizer|runtime error:|WARNING: ThreadSanitizer' /run/rblkd.log >/run/said; then
        not_ok "no sanitizer complains"
    fi
    ! has_failed || { note "rblkd's log:"; tail -n 40 /run/rblkd.log | sed 's/^/#   /'; }
}

# rblkd_tell: what rblkd knows, if anything has failed; before it is stopped
rblkd_tell() { ! has_failed || rblkctl status 2>&1 | sed 's/^/#   /'; }

# rblk_tell: what rblk knows, if anything has failed; before its volumes are detached
rblk_tell() {
    local name log
    has_failed || return 0
    for name in $(rblk list -o json | jq -r '.volumes[].name'); do rblk status "$name"; done 2>&1 | sed 's/^/#   /'
    for log in /run/rblk.log /run/rblk/volumes/*.log; do
        [ ! -s "$log" ] || { note "$log:"; tail -n 60 "$log" | sed 's/^/#   /'; }
    done
    rdma resource show qp | sed 's/^/#   /'
}

# --- two rblkd that share a file -----------------------------------------------------------------------------------

declare -A node node_port=([left]=$PORT [right]=$((PORT + 1)))

# node_start NAME ID GROUP [KEY]: one of the two, `left` or `right`, that serves `file` of `disks` as $nqn with its own
# controller IDs from ID on. GROUP is a key of its ANA group, "owner: lock"; KEY one more of its namespace.
node_start() {
    local name=$1 id=$2 group=$3 key=${4:-}
    mkdir -p /run/rblk/group
    cat >"/run/rblk/$name.yaml" <<END
version: 1
control_socket: /run/rblk/$name.sock
group_directory: /run/rblk/group
controller_ids: {min: $id, max: $((id + 99))}
portals:
  - {name: $name, address: $TARGET, port: ${node_port[$name]}}
subsystems:
  - nqn: $nqn
    serial: TWOPATHS
    allow_any_host: true
    ana_groups: [{id: 1, $group}]
    namespaces:
      - {nsid: 1, file: $file, ana_group: 1${key:+, $key}}
END
    "$(program rblkd)" --config "/run/rblk/$name.yaml" >>/run/rblkd.log 2>&1 </dev/null &
    node[$name]=$!
    wait_for 20 eval "rdma resource show cm_id | grep -q 'state LISTEN.*:${node_port[$name]}'"
}
# node_ctl NAME COMMAND...: rblkctl of that one
node_ctl() { local name=$1; shift; rblkctl "$@" --socket "/run/rblk/$name.sock"; }
# node_kill NAME: kill -9
node_kill() { kill -9 "${node[$1]}"; wait "${node[$1]}" 2>/dev/null; }

# nodes_connect: the kernel's host to both, as one disk with native multipath; sets `left` and `right`, its controllers,
# and `disk`
nodes_connect() {
    must "connect to one" nvme_connect "$nqn" --reconnect-delay 1 --ctrl-loss-tmo 300
    left=$(nvme_ctrl "$nqn")
    disk=$(nvme_disk "$left")
    PORT=${node_port[right]} must "connect to the other" nvme_connect "$nqn" --reconnect-delay 1 --ctrl-loss-tmo 300
    right=$(nvme_ctrl "$nqn")
    check "the host knows the states" wait_for 20 eval "path_is $left optimized && path_is $right inaccessible"
}
path_is() { [ "$(cat "/sys/class/nvme/$1"/nvme*c*n1/ana_state)" = "$2" ]; }
path_live() { [ "$(cat "/sys/class/nvme/$1/state")" = live ]; }

# disks FILE-MIB DEVICE-MIB: the usual backing store. Prints nothing; sets `file` (on ext4, so that O_DIRECT works) and
# `device` (4 KiB blocks, discards).
disks() {
    local under
    under=$(ram_disk $(($1 + 32)))
    mkfs.ext4 -q "$under" && mkdir -p /srv && mount "$under" /srv || return
    file=/srv/a.img
    # the tests depend on allocation, not on the file's contents
    truncate -s "${1}M" $file
    device=$(ram_disk "$2" 4096)
}

need() { local p; for p; do command -v "$p" >/dev/null || skip_all "needs $p"; done; }

rblk() { "$(program rblk)" "$@"; }
rblkctl() { "$(program rblkctl)" "$@"; }

# rblk_serve NQN@ADDRESS OPTION... SOCKET: a volume on an NBD socket, in the background; returns when the socket is there
rblk_serve() {
    "$(program rblk)" serve --frontend socket --socket "${@: -1}" "${@:1:$#-1}" >>/run/rblk.log 2>&1 </dev/null &
    serving=$!
    wait_for 20 test -S "${@: -1}" || { tail -n 20 /run/rblk.log; return 1; }
}
# rblk_serve_stop [PID]: the last one, or that one
rblk_serve_stop() {
    local pid=${1:-$serving}
    kill -TERM "$pid"
    wait_for 10 test ! -e "/proc/$pid/exe" || { kill -9 "$pid"; return 1; }
    wait "$pid"
}

nbd_up() { modprobe -q nbd nbds_max=0 || skip_all "no module nbd"; }
nbd_attached() { grep -o '/dev/nbd[0-9]*' /run/attached | head -1; }

# nbd_attach NQN NAME [OPTION...]: prints the device
nbd_attach() {
    local nqn=$1 name=$2; shift 2
    rblk attach "$nqn@$TARGET:$PORT" --ns 1 --name "$name" "$@" >/run/attached 2>&1 || { cat /run/attached; return 1; }
    nbd_attached
}

# windows_work NQN: with --memory-windows the target invalidates the key of every command; on a device without windows
# rblk says so
windows_work() {
    local sock=/run/windows.sock status
    if [[ $FABRIC = siw ]]; then
        check_fails "a device without memory windows" 'no memory windows' \
            timeout 60 "$(program rblk)" serve --frontend socket --socket $sock --memory-windows "$1@$TARGET:$PORT"
        return
    fi
    check "memory windows: rblk serve" rblk_serve "$1@$TARGET:$PORT" --name windows --memory-windows $sock || return
    check "  fio verify" fio_verify - 512 32 2m --bsrange=512-64k --ioengine=nbd --uri="nbd+unix:///?socket=$sock"
    status=$(rblk status windows -o json)
    like "  the target has invalidated keys" "$(jq .keys_invalidated <<<"$status")" '^[1-9]'
    is "  and has left none" "$(jq .keys_revoked <<<"$status")" 0
    check "  rblk ends when asked" rblk_serve_stop
}

# volume_works WHAT NQN NSID BACKING: rblk serves the namespace on an NBD socket; loads it with fio's own NBD engine,
# nbdcopy and qemu-io, and compares it with the device that lies behind
volume_works() {
    local what=$1 sock=/run/$3.sock behind=$4 uri load
    uri="nbd+unix:///vol?socket=$sock"
    check "$what: rblk serve" rblk_serve "$2@$TARGET:$PORT" --ns "$3" --name vol "$sock" || return
    is "  size" "$(nbdinfo --size "$uri")" "$(blockdev --getsize64 "$behind")"
    for load in "512 1 16k" "512 16 1m --bsrange=512-64k" "4k 128 1m" "1m 4 4m"; do
        # shellcheck disable=SC2086
        check "  fio verify: $load" fio_verify - $load --ioengine=nbd --uri="$uri"
    done
    head -c 4M /dev/urandom >/run/random
    check "  nbdcopy in" nbdcopy /run/random "$uri" --flush
    is "  lies behind it" "$(dd if="$behind" bs=1M count=4 iflag=direct 2>/dev/null | md5sum)" "$(md5sum </run/random)"
    check "  nbdcopy out" eval "nbdcopy '$uri' /run/out.img && cmp -n 4194304 /run/out.img /run/random"
    rm -f /run/out.img
    check "  trim and write zeroes" qemu-io -f raw -c 'write -P 0xaa 0 4M' -c 'discard 1M 1M' -c 'write -z 2M 1M' \
        -c 'read -P 0 2M 1M' -c 'read -P 0xaa 0 1M' -c 'read -P 0xaa 3M 1M' -c flush "$uri"
    check "  rblk ends when asked" rblk_serve_stop
}
