# vm: on=6.1/rxe cpus=1 mem=2048
# The Debian packages on a machine without an RDMA device. The services reach each other over soft-roce, from boot on,
# where their settings ask for it, and only there: with `auto` they wait for a device. The target is in a network
# namespace of its own, as on another machine: it is another user than the volume.
. tests/vm/lib.sh
. tests/vm/systemd.sh
nqn=nqn.2024-01.test:soft
conf=/etc/rblk/target.yaml
far=10.78.0.1 near=10.78.0.2
ip=/etc/systemd/system/rblk-volume@.service.d/ip.conf

# --- before systemd -----------------------------------------------------------------------------------------------

if [ ! -e /run/booted ]; then
    host_identity
    install_packages rblk-target rblk-initiator softrdma
    is "no RDMA device" "$(ls /sys/class/infiniband 2>/dev/null)" ""
    need_modules veth
    ip netns add far
    ip link add near type veth peer name far netns far
    ip addr add $near/24 dev near
    ip link set near up
    ip -n far addr add $far/24 dev far
    ip -n far link set far up
    ip -n far link set lo up
    mkdir -p /etc/systemd/system/rblkd.service.d
    printf '[Service]\nNetworkNamespacePath=/run/netns/far\n' >/etc/systemd/system/rblkd.service.d/far.conf
    mkdir -p /srv/rblk
    truncate -s 64M /srv/rblk/data.img
    chown -R rblk: /srv/rblk
    # as docs/SETUP.md says
    cat >$conf <<END
version: 1
fabric: soft-roce
portals:
  - {name: a, address: $far, port: $PORT}
subsystems:
  - nqn: $nqn
    portals: [a]
    allow_any_host: true
    namespaces:
      - {nsid: 1, file: /srv/rblk/data.img}
END
    printf 'TARGET=%s\nOPTIONS=--ns 1 --queues 1 --fabric soft-roce\n' "$nqn@$far:$PORT" >/etc/rblk/volumes/data.conf
    mkdir -p ${ip%/*}
    printf '[Service]\nRestrictAddressFamilies=AF_INET AF_INET6\n' >$ip
    check "the volume is enabled" systemctl -q enable rblk-volume@data
fi
boot_systemd

# --- the booted system --------------------------------------------------------------------------------------------

volume=rblk-volume@data
is_active() { systemctl -q is-active "$1"; }
is_linked() { [ -b /dev/disk/by-rblk/data ]; }
# has_said LINE TEXT: the journal, since this number of its lines
lines() { journalctl -b -o cat -u rblkd -u $volume | wc -l; }
said_since() { journalctl -b -o cat -u rblkd -u $volume | tail -n "+$(($1 + 1))"; }
has_said() { said_since "$1" | grep -qF -- "$2"; }
settings() { sed -i "$2" "$1" && grep -v '^#' "$1"; }

finish() {
    [ $failed = 0 ] || journalctl -b -u 'rblk*' --no-pager | tail -n 60 | sed 's/^/#   /'
    done_testing
}

check "rblkd is active at boot" wait_for 60 is_active rblkd || finish
check "  and so is the volume" wait_for 60 is_active $volume || finish
check "  with its name" wait_for 10 is_linked
is "rblkd is user rblk" "$(stat -c %U "/proc/$(main_pid rblkd)")" rblk
like "  in a seccomp filter" "$(cat "/proc/$(main_pid rblkd)/status")" 'Seccomp:.2'
like "  as the volume" "$(cat "/proc/$(main_pid $volume)/status")" 'Seccomp:.2'
like "rblkctl finds it" "$(rblkctl status 2>&1)" 'portals 1/1'
is "rblkd --check has nothing to add" "$(rblkd --check 2>&1 >/dev/null)" ""
check "fio verifies on the volume" fio_verify /dev/disk/by-rblk/data 4k 8 4m

check "rblkd restarts" systemctl restart rblkd
check "  and the volume goes on" fio_verify /dev/disk/by-rblk/data 4k 8 2m
check "a stopped volume" systemctl stop $volume
check "  starts again" systemctl start $volume
check "  with its name" wait_for 10 is_linked
check "  and data" fio_verify /dev/disk/by-rblk/data 4k 8 2m

# Without the drop-in the volume may not use UDP.
check "the volume stops" systemctl stop $volume
check "without the drop-in" eval "mv $ip /run && systemctl daemon-reload"
mark=$(lines)
check_fails "  it does not start" '' systemctl start $volume
check "  and says why" wait_for 10 has_said "$mark" 'may not open IP sockets'
is "  as a privilege that it lacks" "$(property $volume ExecMainStatus)" 9
check "with it" eval "mv /run/ip.conf $ip && systemctl daemon-reload && systemctl reset-failed $volume"
check "  it starts again" systemctl start $volume

# Nothing asks for the provider any more, and there is no device still.
check "the volume stops" systemctl stop $volume
check "its options name no fabric" settings /etc/rblk/volumes/data.conf 's/ --fabric soft-roce//'
check "nor does the configuration" settings $conf '/^fabric:/d'
like "rblkd --check says what the service meets" "$(rblkd --check 2>&1)" 'no RDMA device: the service waits for one'
mark=$(lines)
check_fails "rblkd does not start" '' systemctl restart rblkd
check "  because there is no device" wait_for 10 has_said "$mark" 'there is no RDMA device'
check_fails "nor does the volume" '' systemctl start $volume
is "  for the same reason" "$(property $volume ExecMainStatus)" 4
check "neither has taken the provider" eval "! has_said $mark 'using the software'"
check "what is asked for again" settings $conf 's/^version: 1/&\nfabric: auto/'
check_fails "  is not auto" '' systemctl restart rblkd
check "    for which it waits" eval "! has_said $mark 'using the software'"
check "  but soft-roce" settings $conf 's/^fabric: .*/fabric: soft-roce/'
check "rblkd finds it by itself" wait_for 60 is_active rblkd
finish
