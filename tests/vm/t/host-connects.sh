# vm: on=6.1/rxe,6.12/siw also=6.12/rxe,6.1/siw needs=rblkd,rblk
# The kernel's host and nvme-cli against rblkd: discovery, connect with many and few queues, everything that they ask a
# controller for, two hosts at once, and refusals with the right status.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:one closed=nqn.2024-01.test:closed
friend=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-0000000000aa

fabric
nvme_up
disks 32 32
base=$(resources)
must "rblkd listens" rblkd_start <<END
version: 1
portals:
  - {name: a, address: $TARGET, port: $PORT}
hosts:
  - {name: friend, nqn: "$friend"}
subsystems:
  - nqn: $nqn
    serial: SER0001
    portals: [a]
    allow_any_host: true
    namespaces:
      - {nsid: 1, file: $file}
      - {nsid: 2, device: $device, block_size: 4096, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10}
      - {nsid: 3, ram: 16MiB}
  - nqn: $closed
    portals: [a]
    allow_hosts: [friend]
    namespaces:
      - {nsid: 1, ram: 16MiB}
END

log() { nvme_discover -o json "$@"; }
must "nvme discover" log
records=$(cat /run/said)
is "the log has a record a subsystem that this host may use" \
    "$(jq -r '[.records[] | select(.subtype == "nvme subsystem") | .subnqn] | join(" ")' <<<"$records")" $nqn
is "the record's transport, family, address and port" \
    "$(jq -r ".records[] | select(.subnqn == \"$nqn\") | [.trtype, .adrfam, .traddr, .trsvcid] | join(\" \")" <<<"$records")" \
    "rdma ipv4 $TARGET $PORT"
is "the generation counter stands still when nothing changes" "$(jq .genctr <<<"$(log)")" "$(jq .genctr <<<"$records")"
is "a host on the allow list sees the closed subsystem" \
    "$(log --hostnqn $friend | jq -r ".records[] | select(.subnqn == \"$closed\") | .subnqn")" $closed

must "nvme connect" nvme_connect $nqn
ctrl=$(nvme_ctrl $nqn)
is "an I/O queue each CPU" "$(cat "/sys/class/nvme/$ctrl/queue_count")" $(($(nproc) + 1))
is "namespaces 1, 2 and 3" "$(nvme list-ns "/dev/$ctrl" | sed 's/.*://' | xargs)" "0x1 0x2 0x3"
like "nvme list-subsys" "$(nvme list-subsys)" "rdma traddr=$TARGET.*live"
like "nvme list shows the serial number" "$(nvme list)" SER0001
is "sizes in bytes" "$(for i in 1 2 3; do blockdev --getsize64 "$(nvme_disk "$ctrl" $i)"; done | xargs)" \
    "33554432 33554432 16777216"
is "block sizes" "$(for i in 1 2; do blockdev --getss "$(nvme_disk "$ctrl" $i)"; done | xargs)" "512 4096"

id=$(nvme id-ctrl "/dev/$ctrl" -o json)
is "id-ctrl: NQN" "$(jq -r .subnqn <<<"$id")" $nqn
is "id-ctrl: serial" "$(jq -r '.sn | rtrimstr(" ") | sub(" +$"; "")' <<<"$id")" SER0001
is "id-ctrl: keyed SGLs" "$(jq '(.sgls / 4 | floor) % 2' <<<"$id")" 1
is "id-ctrl: 64 and 16 byte queue entries" "$(jq -r '"\(.sqes) \(.cqes)"' <<<"$id")" "102 68"
like "id-ctrl: keep-alive granularity" "$(jq .kas <<<"$id")" '^[1-9]'
is "id-ns: size in blocks" "$(nvme id-ns "/dev/$ctrl" -n 2 -o json | jq .nsze)" 8192
like "ns-descs: the UUID that was configured" "$(nvme ns-descs "/dev/$ctrl" -n 2)" 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10
check "smart-log" nvme smart-log "/dev/$ctrl"
check "error-log" nvme error-log "/dev/$ctrl"
check "fw-log" nvme fw-log "/dev/$ctrl"
# bookworm's nvme-cli prints nothing of a fabrics controller's effects log, so its bytes: write, flush, write zeroes
effects=$(nvme get-log "/dev/$ctrl" -i 5 -l 4096 -b | od -An -v -tu4 -w4 -j1024 | awk '{ print $1 % 2 }' | xargs)
is "effects-log: flush, write, read, write zeroes, dsm are supported" \
    "$(cut -d' ' -f1-3,9,10 <<<"$effects")" "1 1 1 1 1"
check "changed-ns-list-log" nvme changed-ns-list-log "/dev/$ctrl"
like "get-property: version 1.3 or later" "$(nvme get-property "/dev/$ctrl" -o 8)" 'value: *(10[3-9]|20[0-9])00$'
for feature in 1:arbitration 2:power 4:temperature 5:error-recovery 6:write-cache 7:queues 8:interrupt-coalescing \
    9:interrupt-vector 10:write-atomicity 11:async-events 15:keep-alive 22:host-behavior 129:host-id; do
    # the host's identifier is asked for in its 16 bytes
    check "get-feature ${feature#*:}" nvme get-feature "/dev/$ctrl" -f "${feature%:*}" -c $((${feature%:*} == 129))
done
like "  the write cache is on" "$(nvme get-feature "/dev/$ctrl" -f 6)" 'value: *0?x?0*1$'
check "  and which can be changed" nvme get-feature "/dev/$ctrl" -f 7 -s 3
check_fails "an unknown feature is an invalid field" 'INVALID_FIELD|Invalid Field|invalid field' nvme get-feature "/dev/$ctrl" -f 0x7e
check_fails "an unknown log page is refused" 'INVALID|Invalid|invalid' nvme get-log "/dev/$ctrl" -i 0xbf -l 512
check_fails "an unknown command is an invalid opcode" 'INVALID_OPCODE|Invalid.*Opcode' nvme admin-passthru "/dev/$ctrl" -o 0x7e

check "the same host connects a second time" nvme_connect_as "$(</etc/nvme/hostnqn)" "$(</etc/nvme/hostid)" $nqn duplicate_connect
check "a second host connects" nvme_connect_as $friend 00000000-0000-4000-8000-0000000000aa $nqn
is "three controllers" "$(grep -lx $nqn /sys/class/nvme/nvme*/subsysnqn | wc -l)" 3
# a host that is not the kernel's, for to the kernel all paths to a subsystem are one disk
disk=$(nvme_disk "$ctrl" 3) sock=/run/other.sock
check "a host of another kind at the same time" rblk_serve $nqn@$TARGET:$PORT --ns 3 --hostnqn $friend \
    --hostid 00000000-0000-4000-8000-0000000000aa "$sock"
fio_verify - 4k 16 2m --ioengine=nbd --uri="nbd+unix:///?socket=$sock" --offset=8m >/run/other.log 2>&1 &
other=$!
check "  both write and verify" fio_verify "$disk" 4k 16 2m
check "  neither disturbs the other" wait $other
check "  which ends when asked" rblk_serve_stop
check "disconnect" nvme disconnect -n $nqn
for options in "--nr-io-queues=1" "--nr-io-queues=1 --queue-size=16" "--queue-size=16" "--queue-size=1024" \
    "--nr-io-queues=8 --queue-size=128" "--keep-alive-tmo=1" "--nr-write-queues=1 --nr-poll-queues=1"; do
    # shellcheck disable=SC2086
    check "connect with $options" nvme_connect $nqn $options
    check "  and reads" dd if="$(nvme_disk "$(nvme_ctrl $nqn)")" of=/dev/null bs=64k count=16 iflag=direct
    nvme disconnect -n $nqn >/dev/null
done

mark=$(dmesg_mark)
check_fails "a host that is not on the list is refused" . twice nvme connect -t rdma -a "$TARGET" -s $PORT -n $closed
like "  with Connect Invalid Host, do not retry" "$(dmesg_since "$mark")" 'not allowed|Connect Invalid Host|16772|subsystem.*host'
check "  and the host on the list is not" nvme_connect_as $friend 00000000-0000-4000-8000-0000000000aa $closed
nvme disconnect -n $closed >/dev/null
mark=$(dmesg_mark)
check_fails "a wrong NQN is refused" . twice nvme connect -t rdma -a "$TARGET" -s $PORT -n nqn.2024-01.test:none
like "  with Connect Invalid Parameters, pointing at the NQN" "$(dmesg_since "$mark")" 'Connect Invalid Data Parameter.*subsysnqn|subsysnqn'
check "rblkd lives" rblkd_alive
check "connect and disconnect 5 times" eval 'for i in {1..5}; do nvme_connect $nqn >/dev/null && nvme disconnect -n $nqn || break; done'
rblkd_done "$base"
done_testing
