#!/usr/bin/env bash
# vm: on=6.1/tap,6.12/tap needs=rblkd,rblk long=yes
# roce-beside-rxe.sh [--kernel 6.1|6.12]: softrdma's RoCE v2 on this host and rdma_rxe in a guest, joined by a tap in a
# network namespace of its own (root). Prints TAP: the guest's checks, then this host's. ROCE_LOSS_S=60: how long the
# guest loses 5 % of its packets while it writes (5 s).
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit
if [ "$(id -u)" != 0 ] || [ ! -e /dev/net/tun ]; then
    echo "1..0 # SKIP a tap needs root and /dev/net/tun"
    exit 77
fi
if [ "${ROCE_NETNS:-}" != 1 ]; then
    ROCE_NETNS=1 exec unshare -n "$0" "$@"
fi
kernel=6.1
[ "${1:-}" != --kernel ] || kernel=$2
build=${BUILD:-$PWD/build/dev}
export BUILD=$build
work=$(mktemp -d "${TMPDIR:-/tmp}/rblk-roce.XXXXXX")
export SOFTRDMA_LIB=$build/softrdma/libsoftrdma.so
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait' EXIT

ip link set lo up
ip tuntap add tap0 mode tap
ip link set tap0 up
ip addr add 10.77.0.2/24 dev tap0
ip addr add 10.77.0.3/24 dev tap0
ip addr add fd77::2/64 dev tap0 nodad

# ROCE_PCAP=FILE: what crosses the cable, for tshark
[ -z "${ROCE_PCAP:-}" ] || { tshark -q -i tap0 -s 128 -w "$ROCE_PCAP" >/dev/null 2>&1 & pids+=($!); }

cat >"$work/target.yaml" <<END
version: 1
portals:
  - {name: far, address: 10.77.0.3}
subsystems:
  - nqn: nqn.2024-01.test:far
    allow_any_host: true
    namespaces:
      - {nsid: 1, file: $work/disk}
END
mkdir "$work/target" "$work/host"
truncate -s 64M "$work/disk"
tools/softrdma --roce rping -s -P -a 10.77.0.2 -v >"$work/rping.log" 2>&1 & pids+=($!)
tools/softrdma --roce rping -s -P -a fd77::2 -v >"$work/rping6.log" 2>&1 & pids+=($!)
# what this host loses of what it sends; the guest loses by netem
touch "$work/faults"
target_starts() {
    RBLK_RUN_DIR=$work/target SOFTRDMA_ROCE=any SOFTRDMA_CONTROL=$work/faults "$build/target/rblkd" \
        --config "$work/target.yaml" >>"$work/rblkd.log" 2>&1 &
    target=$!; pids+=("$target")
}
target_starts

TMPDIR=$work RBLK_VM_KEEP=1 RBLK_VM_NETDEV="tap,id=net,ifname=tap0,script=no,downscript=no" \
    tests/vm/run-vm --kernel "$kernel" tests/vm/roce-guest.sh "${ROCE_LOSS_S:-5}" >"$work/guest.log" 2>&1 &
guest=$!; pids+=($guest)

point() { echo "$work"/rblk-vm.*/out/point."$1"; }
await() {
    until [ -e "$(point "$1")" ]; do
        kill -0 $guest 2>/dev/null || return 1
        sleep 0.2
    done
}
reached() { touch "$(echo "$work"/rblk-vm.*/out)/point.$1"; }
n=0 failed=0
check() {
    local what=$1; shift
    n=$((n + 1))
    if "$@" >"$work/said" 2>&1; then echo "ok host $n - $what"; else
        failed=1; echo "not ok host $n - $what"; sed 's/^/#   /' "$work/said" | tail -n 20; fi
}

# volume_verifies SIZE BLOCK-SIZE
volume_verifies() {
    timeout -k 10 120 fio --name=t --ioengine=nbd "--uri=nbd+unix:///g?socket=$work/host/volumes/g.nbd" --rw=randwrite \
        --bs="$2" --iodepth=4 --size="$1" --verify=crc32c --verify_fatal=1 --verify_state_save=0 "--aux-path=$work"
}

if await loss-is-over; then
    ip link set tap0 down
    sleep 12
    ip link set tap0 up
    ip addr add fd77::2/64 dev tap0 nodad
    reached cable-is-back
fi
if await guest-is-back; then
    kill -9 $target
    wait $target 2>/dev/null
    target_starts
    reached target-was-killed
fi
if await guest-listens; then
    check "rping to rxe" timeout 120 tools/softrdma --roce rping -c -a 10.77.0.1 -C 10 -V
    reached host-has-pinged
fi
if await target-listens; then
    export RBLK_RUN_DIR=$work/host SOFTRDMA_ROCE=any SOFTRDMA_CONTROL=$work/faults
    check "rblk attach to nvmet" timeout 120 "$build/tools/rblk/rblk" attach nqn.2024-01.test:guest@10.77.0.1 --name g --frontend socket
    check "fio, verified" volume_verifies 4m 16k
    reached host-wants-loss
    await guest-loses && echo drop=5 >"$work/faults"
    # In one packet each: where rxe (seen with 6.12) loses some responses of a READ, its completer can warn, complete the
    # READ as if it had succeeded and leave its target waiting.
    check "fio, verified, 5 % lost each way" volume_verifies 128k 1k
    : >"$work/faults"
    check "rblk detach" timeout 60 "$build/tools/rblk/rblk" detach g
    reached host-is-done
fi
wait $guest
rc=$?
cat "$work/guest.log"
[ $n = 5 ] || { echo "not ok host - all five checks: $n were reached"; failed=1; }
[ $rc != 0 ] || rc=$failed
if [ $rc = 0 ]; then rm -rf "$work"; else echo "# logs in $work"; fi
exit $rc
