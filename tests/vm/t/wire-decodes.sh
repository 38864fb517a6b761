# vm: two=yes on=6.1/rxe needs=rblkd cpus=1
# An independent reading of the wire: what passes between the kernel's host and rblkd, from the connection manager to
# the last response, is decoded by tshark without a malformed packet. It also shows that responses invalidate the host's
# keys when it asks for that, and only then.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:wire

fabric
if [ "$ROLE" = target ]; then
    disks 32 32
    rblkd_serves $nqn "file: $file"
    reached listening
    await done 120
    check "rblkd stops when asked" rblkd_stop
    done_testing
fi

nvme_up
await listening
pcap=/run/wire.pcap
capture() {
    dumpcap -q -i eth0 -w "$1" 2>/run/dumpcap.log &
    capture=$!
    wait_for 15 test -s "$1"
}
# the last packets are on their way to the file for up to a second
captured() { sleep 2; kill -INT $capture; wait $capture; }
capture $pcap
must "nvme discover" nvme_discover
must "nvme connect" nvme_connect $nqn --nr-io-queues=1
disk=$(nvme_disk "$(nvme_ctrl $nqn)")
check "small and large commands" fio_verify "$disk" 512 4 64k --bsrange=512-64k --size=256k
check "flush" nvme flush "$disk" -n 1
check "discard" blkdiscard -o 0 -l 64k "$disk"
check "nvme disconnect" nvme disconnect -n $nqn
captured
cp $pcap "$OUT/wire.pcap"

# one pass, for tshark takes seconds: a line a packet, a column a field
fields="infiniband infiniband.cm.req.ip_cm.dip4 infiniband.cm.req.ip_cm.private infiniband.cm.rep nvme-rdma.cm.rsp.crqsize
    nvme-rdma nvme.fabrics.cmd.opc nvme.fabrics.cqe nvme.cmd.opc nvme.cqe.status _ws.malformed infiniband.bth.opcode"
# shellcheck disable=SC2046
tshark -r $pcap -T fields $(printf -- '-e %s ' $fields) >/run/fields 2>/run/said
column=0
for field in $fields; do
    column=$((column + 1))
    [ $column -le 10 ] || break
    n=$(cut -f$column /run/fields | grep -c .)
    like "$field: $n packets" "$n" '^[1-9]'
done
# record format 0, queue id, receive and send queue sizes, the sizes one apart on the admin queue of 32
like "a CM request carries the sizes of its queue" "$(cut -f3 /run/fields)" '^0000000020001f00'
# Data by RDMA WRITE (opcodes 6 to 11) is left out: bookworm's tshark stumbles over a log page that comes in several
# packets, from any sender.
is "no malformed CM message, capsule or response" \
    "$(awk -F'\t' '$11 != "" && !($12 >= 6 && $12 <= 11)' /run/fields | wc -l)" 0

# SEND Only (4) and SEND Only with Invalidate (23): what the host's default asks for, and a host with one key for all
sends() { awk -F'\t' -v opcode=$1 '$12 == opcode' /run/fields | wc -l; }
like "responses invalidate the keys of a host that asks for it" "$(sends 23)" '^[1-9]'
pcap=/run/plain.pcap
check "a host that asks for no invalidation" eval "modprobe -r nvme-rdma && modprobe nvme-rdma register_always=N"
capture $pcap
must "  nvme connect" nvme_connect $nqn --nr-io-queues=1
check "  reads and writes" fio_verify "$(nvme_disk "$(nvme_ctrl $nqn)")" 4k 4 256k
check "  nvme disconnect" nvme disconnect -n $nqn
reached done
captured
# shellcheck disable=SC2046
tshark -r $pcap -T fields $(printf -- '-e %s ' $fields) >/run/fields 2>/run/said
like "  gets responses" "$(sends 4)" '^[1-9]'
is "  which invalidate nothing" "$(sends 23)" 0
done_testing
