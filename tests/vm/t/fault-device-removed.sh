# vm: two=yes on=6.12/rxe needs=rblkd cpus=1
# The target's RDMA device goes away under load and comes back, twice (F5): rblkd gives up what was on it, so that
# `rdma link delete` returns, lives on, listens again by itself when it is back, and the host resumes without an error.
# A portal at every address survives too.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:gone

listening_any() { rdma resource show cm_id | grep -q "state LISTEN.*:$((PORT + 1))"; }
portal_state() { rblkctl list -s /run/rblk/ctl portals | awk -v p="$1" '$1 == p || $2 == p'; }

# round N: the device is removed while it is in use, and comes back
round() {
    await "loaded$1" 100
    # it waits in the kernel, beyond any signal, until every program has let go of the device
    (rdma link delete "${FABRIC}0"; touch "/run/deleted$1") &
    check "round $1: rdma link delete under load" wait_for 20 test -e "/run/deleted$1" || {
        sed 's/^/#   it waits in: /' "/proc/$(pgrep -x rdma)/stack"
        kill -9 "$rblkd"
    }
    check "  rblkd lives" rblkd_alive
    like "  its portal waits" "$(portal_state a)" waiting
    like "  the portal at every address listens" "$(portal_state any)" listening
    fabric
    check "  and listens again when the device is back" rblkd_listens
    check "  at every address too" wait_for 20 listening_any
    reached "back$1"
}

fabric
if [ "$ROLE" = target ]; then
    disks 32 32
    base=$(resources)
    must "rblkd listens" rblkd_start --control-socket /run/rblk/ctl <<END
version: 1
portals:
  - {name: a, address: $TARGET, port: $PORT}
  - {name: any, address: 0.0.0.0, port: $((PORT + 1))}
subsystems:
  - nqn: $nqn
    portals: [a, any]
    allow_any_host: true
    namespaces:
      - {nsid: 1, file: $file}
      - {nsid: 2, ram: 16MiB}
END
    reached listening
    round 1
    round 2
    await done 150
    rblkd_done "$base"
    done_testing
fi

nvme_up
await listening
must "nvme connect" nvme_connect $nqn --reconnect-delay 2 --keep-alive-tmo 5 --ctrl-loss-tmo 100
ctrl=$(nvme_ctrl $nqn)
fio_begin "$(nvme_disk "$ctrl")" 4k 8 40
for n in 1 2; do
    sleep 2
    reached "loaded$n"
    await "back$n"
    check "the host is back" wait_for 40 grep -q live "/sys/class/nvme/$ctrl/state"
done
check "fio verified everything" fio_end 120
check "nvme disconnect" nvme disconnect -n $nqn
reached done
done_testing
