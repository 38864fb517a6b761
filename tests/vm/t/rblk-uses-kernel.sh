# vm: on=6.1/siw,6.12/rxe needs=rblk
# The other side: rblk against the kernel's target, which takes 0, 4 KiB or 16 KiB of data in a command; discovery,
# queues few and many, two hosts at once, growth, refusals, and a target that goes away under load.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:kernel
need nbdcopy nbdinfo qemu-io jq

fabric
host_identity
disks 24 24
disk=$(ram_disk 24)
disk_4k=$device
base=$(resources)
nvmet_up

# --- data ----------------------------------------------------------------------------------------------------------

sock() { echo "nbd+unix:///?socket=/run/$1.sock"; }
verify() { local sock=$1; shift; fio_verify - "$@" --ioengine=nbd --uri="$(sock "$sock")"; }

for inline in 4096 0 16384; do
    nvmet_subsystem $nqn "$disk" "$disk_4k"
    must "nvmet takes $inline bytes in a command" nvmet_port "$TARGET" $inline
    if [ $inline = 4096 ]; then
        volume_works "512 B blocks" $nqn 1 "$disk"
        volume_works "4 KiB blocks" $nqn 2 "$disk_4k"
        windows_work $nqn
    else
        check "  rblk serve" rblk_serve $nqn@$TARGET:$PORT --name inline /run/inline.sock
        check "  fio verify of sizes 512 B to 32 KiB" verify inline 512 16 1m --bsrange=512-32k
        check "  rblk ends when asked" rblk_serve_stop
    fi
    nvmet_down
done

# --- discovery, queues, hosts --------------------------------------------------------------------------------------

nvmet_subsystem $nqn "$disk" "$file"
nvmet_subsystem $nqn.closed "$disk_4k"
echo 0 >$nvmet/subsystems/$nqn.closed/attr_allow_any_host
must "nvmet listens" nvmet_port "$TARGET"
said=$(rblk discover -o json "$TARGET:$PORT" 2>&1)
like "rblk discover: what this host may use" "$said" "\"$nqn\""
like "  address" "$said" "\"$TARGET\""
like "  port" "$said" "\"?$PORT\"?"
is "  and nothing else" "$(grep -c "$nqn.closed" <<<"$said")" 0
check_fails "a host that is not on the list is refused" 'refuses host' \
    timeout 60 "$(program rblk)" serve --frontend socket --socket /run/no.sock $nqn.closed@$TARGET:$PORT
check_fails "a wrong NQN is refused" 'does not know subsystem' \
    timeout 60 "$(program rblk)" serve --frontend socket --socket /run/no.sock $nqn.none@$TARGET:$PORT

for options in "--queues 1 --queue-size 16" "--queues 1 --queue-size 128" "--queues 8 --queue-size 32"; do
    # shellcheck disable=SC2086
    check "rblk serve $options" rblk_serve $nqn@$TARGET:$PORT --name q $options /run/q.sock
    check "  fio verify" verify q 4k 32 512k
    check "  rblk ends when asked" rblk_serve_stop
done

check "one host" rblk_serve $nqn@$TARGET:$PORT --name a /run/a.sock
a=$serving
check "and another at the same time" rblk_serve $nqn@$TARGET:$PORT --name b --hostid 00000000-0000-4000-8000-0000000000bb \
    --hostnqn nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-0000000000bb /run/b.sock
b=$serving
verify a 4k 16 2m >/run/a.log 2>&1 &
load=$!
check "  both write and verify" verify b 4k 16 2m --offset=8m
check "  neither disturbs the other" wait $load
check "  the one ends when asked" rblk_serve_stop "$a"
check "  and the other" rblk_serve_stop "$b"

# --- in the life of a volume ---------------------------------------------------------------------------------------

check "rblk serve" rblk_serve $nqn@$TARGET:$PORT --ns 2 --name life --reconnect-delay 1s /run/life.sock
is "  size" "$(nbdinfo --size "$(sock life)")" $((24 << 20))
truncate -s 32M "$file"
echo 1 >$nvmet/subsystems/$nqn/namespaces/2/revalidate_size
check "  the namespace grows, and rblk hears of it" wait_for 10 eval "[ \$(nbdinfo --size '$(sock life)') = $((32 << 20)) ]"
check "  and uses the new part" verify life 4k 8 1m --offset=26m
verify life 4k 8 4m --rate_iops=300 >/run/life.log 2>&1 &
load=$!
before=$(writes)
wait_for 10 eval "[ \$(writes) -gt $((before + 100)) ]"
# the last one ends the listening too: a subsystem that is gone from a living target would be a refusal
rm "$nvmet/ports/1/subsystems/$nqn.closed" "$nvmet/ports/1/subsystems/$nqn"
check "the target goes away under load" wait_for 10 eval '! rdma resource show cm_id | grep -q "LISTEN.*:$PORT"'
sleep 2
ln -s $nvmet/subsystems/$nqn $nvmet/ports/1/subsystems/
check "  rblk comes back and fio verifies everything" wait $load
check "  rblk ends when asked" rblk_serve_stop
nvmet_down
left_nothing "$base"
rblk_tell
done_testing
