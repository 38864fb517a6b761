# vm: also=6.1/rxe needs=rblkd,rblkctl timeout=600
# A namespace grows while a host uses it: the host hears of it by an asynchronous event and uses the new part at once.
. tests/vm/lib.sh
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:grow

rblkctl --help 2>&1 | grep -qw ns || skip_all "rblkctl has no 'ns resize' yet"
fabric
nvme_up
disks 128 32
base=$(resources)
must "rblkd listens" rblkd_start <<END
version: 1
portals:
  - {name: a, address: $TARGET, port: $PORT}
subsystems:
  - nqn: $nqn
    portals: [a]
    allow_any_host: true
    namespaces:
      - {nsid: 1, file: $file}
END
must "nvme connect" nvme_connect $nqn
disk=$(nvme_disk "$(nvme_ctrl $nqn)")
is "the namespace is as big as its file" "$(blockdev --getsize64 "$disk")" $((128 << 20))
truncate -s 144M "$file"
check "rblkctl ns resize" rblkctl ns resize $nqn 1
check "the host sees it grow, unasked" wait_for 10 eval "[ \$(<${disk/dev/sys\/block}/size) = $((144 << 11)) ]"
check "  and uses the new part" fio_verify "$disk" 4k 8 4m --offset=136m
is "  which lies in the file" "$(cmp -n 4194304 -i $((136 << 20)) "$disk" "$file" && echo same)" same
check "nvme disconnect" nvme disconnect -n $nqn
rblkd_done "$base"
done_testing
