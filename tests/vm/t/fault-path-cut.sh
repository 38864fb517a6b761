# vm: two=yes on=6.12/rxe also=6.1/rxe,6.1/siw needs=rblk,rblkd cpus=1
# Two machines, two portals: the packets to one of them are lost, then those to the other. The kernel's host with native
# multipath, and rblk with two paths, go on by the path that is left; fio sees neither an error nor a wrong byte.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:cut
other=10.77.0.3

fabric
if [ "$ROLE" = target ]; then
    check "the target has a second address" ip address add $other/24 dev eth0
    disks 48 48
    base=$(resources)
    must "rblkd listens" rblkd_start <<END
version: 1
portals:
  - {name: a, address: $TARGET, port: $PORT}
  - {name: b, address: $other, port: $PORT}
subsystems:
  - nqn: $nqn
    portals: [a, b]
    allow_any_host: true
    namespaces:
      - {nsid: 1, file: $file}
      - {nsid: 2, device: $device, block_size: 4096}
END
    reached listening
    wait_for 300 mended test -e "$OUT/point.gone"
    rblkd_tell
    rblkd_done "$base"
    done_testing
fi

# cut ADDRESS: what comes from there is lost before RDMA sees it (what a queueing discipline drops on its way out is an
# error of the work request to rxe, and no loss); heal: nothing is lost
cut() {
    tc qdisc add dev eth0 clsact && tc filter add dev eth0 ingress protocol ip u32 match ip src "$1/32" action drop
}
heal() { tc qdisc del dev eth0 clsact; }
are_back() { is_back "$TARGET" && is_back $other; }
# a_block_is_read: within a minute. dd that waits for the kernel cannot be killed, so it is left alone then.
a_block_is_read() {
    rm -f /run/dd.rc
    (dd if="$disk" of=/dev/null bs=4k count=1 iflag=direct; echo $? >/run/dd.rc) &
    wait_for 60 mended test -s /run/dd.rc && [ "$(cat /run/dd.rc)" = 0 ]
}
# each_is_cut ADDRESS...: is_lost and is_back are the host's. No cut is made before the other path can be used.
each_is_cut() {
    local address
    for address; do
        check "both paths are live" wait_for 60 mended are_back
        check "the path to $address is cut" cut "$address"
        check "  which the host notices" wait_for 60 is_lost "$address"
        check "  I/O goes on" a_block_is_read
        heal
        check "  healed, it is used again" wait_for 60 mended is_back "$address"
    done
}

nvme_up
need_modules sch_ingress cls_u32 act_gact
nbd_up
host_identity
await listening

# --- the kernel's host ---
if grep -q Y /sys/module/nvme_core/parameters/multipath; then
    must "connect to one portal" nvme_connect $nqn --reconnect-delay 1 --keep-alive-tmo 5 --ctrl-loss-tmo 600
    first=$(nvme_ctrl $nqn)
    TARGET=$other must "connect to the other" nvme_connect $nqn --reconnect-delay 1 --keep-alive-tmo 5 --ctrl-loss-tmo 600
    disk=$(nvme_disk "$first")
    # state ADDRESS: of its controller
    state() { cat "$(dirname "$(grep -l "traddr=$1," /sys/class/nvme/nvme*/address)")/state"; }
    is_lost() { [ "$(state "$1")" != live ]; }
    is_back() { [ "$(state "$1")" = live ]; }
    fio_begin "$disk" 4k 8 25 --fsync=16
    each_is_cut "$TARGET" $other
    check "fio verified everything" fio_end 120
    check "nvme disconnect" nvme disconnect -n $nqn
fi

# --- rblk ---
disk=$(nbd_attach $nqn cut --ns 2 --path "$other:$PORT" --keep-alive 5s --ctrl-loss-tmo 600s)
check "rblk attaches by both" test -b "$disk"
# state ADDRESS: of that path
state() { rblk status cut -o json | jq -r --arg a "$1" '.path_list[] | select(.address | startswith($a)) | .state'; }
is_lost() { [ "$(state "$1")" != live ]; }
is_back() { [ "$(state "$1")" = live ]; }
fio_begin "$disk" 4k 8 25 --fsync=16
each_is_cut "$TARGET" $other
check "fio verified everything" fio_end 120
rblk_tell
check "rblk detach" rblk detach cut
reached gone
done_testing
