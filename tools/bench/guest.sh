# vm: cpus=2 mem=2048
# The guest's side of `tools/bench/run vm` (vm.py): sets up every contender, then runs the commands that
# arrive, a line each, and puts what they print where the other side finds it. The namespaces are as large, and what the
# kernel's target serves first costs least: a null_blk without memory, whose reads move nothing.
. tests/vm/rblk.sh
name=nqn.2026-01.org.example
nvmet_port=4420 rblkd_port=4430
nvmet_at=$name:nvmet@$TARGET:$nvmet_port rblkd_at=$name:rblkd@$TARGET:$rblkd_port

null_disk() {
    modprobe -q null_blk nr_devices=0
    mkdir /sys/kernel/config/nullb/nullb0
    cd /sys/kernel/config/nullb/nullb0 || return
    echo "$1" >size
    echo 4096 >blocksize
    nproc >submit_queues
    echo 1 >power
    cd "$VM_REPO" || return
    wait_for 5 test -b /dev/nullb0
}

# idle SECONDS PID...: the part of a CPU that these processes need, in percent
idle() {
    local seconds=$1 pid before after; shift
    for pid; do [ -e "/proc/$pid/schedstat" ] || { echo "no process $pid" >&2; return 1; }; done
    pause 10 # attaching and the load before are over
    before=$(run_time "$@")
    pause "$seconds"
    after=$(run_time "$@")
    echo "{\"cpu_percent\": $(awk "BEGIN { print ($after - $before) / $seconds / 1e7 }")}"
}
run_time() { local pid; for pid; do cat "/proc/$pid"/task/*/schedstat; done | awk '{ n += $1 } END { printf "%.0f", n }'; }

fabric
nvme_up
nvmet_up
need_modules nbd
need fio jq nbdkit nbd-client

must "null_blk" null_disk 512
memory=$(ram_disk 512 4096) # beside it one that moves its data, as ours
must "nvmet" nvmet_subsystem $name:nvmet /dev/nullb0 "$memory"
must "nvmet listens" nvmet_port "$TARGET" 16384 $nvmet_port
PORT=$rblkd_port
must "rblkd" rblkd_start <<END
version: 1
tuning: $1
portals:
  - {name: a, address: $TARGET, port: $PORT}
subsystems:
  - nqn: $name:rblkd
    allow_any_host: true
    namespaces:
      - {nsid: 1, ram: 512MiB, block_size: 4096}
END
must "kernel host -> rblkd" nvme_connect $name:rblkd
kernel_rblkd=$(nvme_disk "$(nvme_ctrl $name:rblkd)")
PORT=$nvmet_port
must "kernel host -> nvmet" nvme_connect $name:nvmet
kernel_nvmet=$(nvme_disk "$(nvme_ctrl $name:nvmet)")
kernel_memory=$(nvme_disk "$(nvme_ctrl $name:nvmet)" 2)
PORT=$rblkd_port
must "rblk attach" nbd_attach $name:rblkd volume
nbd=$(grep -o '/dev/nbd[0-9]*' /run/attached | head -1)
volume=$(cat "/sys/block/${nbd##*/}/pid")
nbdkit -U /run/nbdkit.sock memory 512M
must "nbdkit" wait_for 10 test -S /run/nbdkit.sock
must "nbd-client" nbd-client -unix /run/nbdkit.sock /dev/nbd9 -b 4096
nbdkit=/dev/nbd9

echo "where: QEMU $VM_ACCEL, $(nproc) CPUs, Linux $(uname -r), $FABRIC"
touch "$OUT/requests"
exec {requests}<"$OUT/requests"
n=0
look_at_clock
last=$now
# the requesting side may have ended meanwhile
while [ $((now - last)) -lt 60000 ]; do
    look_at_clock
    IFS= read -r line <&"$requests" || { pause 0.1; continue; }
    [ "$line" != end ] || exit 0
    n=$((n + 1))
    eval "$line" >"$OUT/answer" 2>"$OUT/complaint"
    echo "answered $n $?"
    look_at_clock
    last=$now
done
