# vm: on=6.1/rxe needs=rblkd,rblkctl cpus=1
# The configuration changes under a kernel host: namespaces come and go and grow as it watches, a portal is drained and
# comes back, a withdrawn host is let go of; the disk that stays is written and verified throughout.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:change

fabric
nvme_up
disks 128 64
base=$(resources)
# config ALLOWED [NAMESPACE...]
config() {
    cat <<END
version: 1
portals:
  - {name: a, address: $TARGET, port: $PORT}
subsystems:
  - nqn: $nqn
    allow_hosts: [$1]
    namespaces:
      - {nsid: 1, file: $file}
END
    shift
    [ $# = 0 ] || printf '      - {%s}\n' "$@"
}
apply() { config "$@" >$conf && rblkctl apply; }
me=$(cat /etc/nvme/hostnqn)
must "rblkd listens" rblkd_start < <(config "'$me'" "nsid: 2, ram: 16MiB")
must "nvme connect" nvme_connect $nqn --reconnect-delay 1 --ctrl-loss-tmo 60
ctrl=$(nvme_ctrl $nqn)
disk=$(nvme_disk "$ctrl")
second=$(nvme_disk "$ctrl" 2)
sectors() { [ "$(<"/sys/block/${1#/dev/}/size")" = "$2" ]; }
fio_begin "$disk" 4k 16 20

check "a namespace is added" apply "'$me'" "nsid: 2, ram: 16MiB" "nsid: 3, device: $device, block_size: 4096"
check "  the host has a disk more" wait_for 20 nvme_disk "$ctrl" 3
check "  which works" fio_verify "$(nvme_disk "$ctrl" 3)" 4k 8 2m
check "memory grows" apply "'$me'" "nsid: 2, ram: 24MiB" "nsid: 3, device: $device, block_size: 4096"
check "  the host sees it" wait_for 20 sectors "$second" $((24 << 11))
check "  and uses what was added, and what was there, in one" fio_verify "$second" 64k 8 4m --offset=14m
check "namespaces are removed" apply "'$me'"
gone() { ! nvme_disk "$ctrl" "$1"; }
check "  the host lets go of one" wait_for 20 gone 2
check "  and of the other" wait_for 20 gone 3
check "  whose device is free" wait_for 10 fio_verify "$device" 4k 1 64k
check_fails "a wrong file is refused" "unknown key 'rom'" apply "'$me'" "nsid: 2, rom: 16MiB"
check "a portal is drained" rblkctl drain a
connecting() { grep -q connecting "/sys/class/nvme/$ctrl/state"; }
live() { grep -q live "/sys/class/nvme/$ctrl/state"; }
check "  the host tries to come back" wait_for 20 connecting
check "  and does when it listens again" rblkctl drain a --undo
check "  is live" wait_for 20 live
check "fio verified everything" fio_end
check "the host is withdrawn" apply ''
check "  it gives up at once, for it was told to" wait_for 30 eval "! nvme_ctrl $nqn"
rblkd_done "$base"
done_testing
