# vm: on=6.12/rxe also=6.12/siw needs=rblkd,rblk cpus=1
# DH-HMAC-CHAP with the kernel on the other side: its host at rblkd, and rblk at its target. Debian's 6.1 has neither.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:closed kernel_nqn=nqn.2024-01.test:kernel
need nvme fio nbdinfo nbdcopy qemu-io

fabric
nvme_up
me=$(cat /etc/nvme/hostnqn)
keys=/run/keys
mkdir -m 700 $keys
for name in host ctrl other; do must "rblkctl gen-key" rblkctl gen-key --file $keys/$name; done
for hash in 1 2 3; do (umask 077; nvme gen-dhchap-key --nqn "$me" --hmac=$hash >$keys/nvme$hash); done
key() { cat "$keys/$1"; }

# target KEY-FILE [KEY: VALUE...]: rblkd with one subsystem for this host, which must prove its identity
target() {
    rblkd_start --log-level debug <<YAML
version: 1
# without hardware a host may compute for long
limits: {auth_timeout: 60s}
portals: [{name: p, address: $TARGET, port: $PORT}]
hosts: [{name: me, nqn: '$me', dhchap_key_file: $keys/$1${2:+, $2}}]
subsystems:
  - nqn: $nqn
    allow_hosts: [me]
    namespaces: [{nsid: 1, ram: 24MiB}]
YAML
}
# reads: connects with these options, reads, and leaves
reads() {
    nvme_connect $nqn --nr-io-queues=2 "$@" >/run/said2 || { cat /run/said2; return 1; }
    dd if="$(nvme_disk "$(nvme_ctrl $nqn)")" of=/dev/null bs=64k count=4 iflag=direct
    local rc=$?
    nvme disconnect -n $nqn >/dev/null
    return $rc
}
base=$(resources)

# --- the kernel's host at rblkd ---
# The kernel computes without letting others on its CPU. Under translation that takes so long that rxe, whose patience
# is half a second, gives the connection up; TCP under siw has more, but not for the larger groups.
choices=("sha256 none" "sha384 none" "sha512 none")
nvmet_choices=("hmac(sha256) null" "hmac(sha512) null")
only_quick="dhchap_dhgroups: [none]"
if [ "$VM_ACCEL" = kvm ] || [ "$FABRIC" = siw ]; then
    choices=("sha256 none" "sha384 ffdhe2048" "sha512 ffdhe3072")
    nvmet_choices=("hmac(sha256) null" "hmac(sha384) ffdhe2048" "hmac(sha512) ffdhe3072")
fi
[ "$VM_ACCEL" != kvm ] || choices+=("sha256 ffdhe4096" "sha384 ffdhe6144" "sha512 ffdhe8192")
for choice in "${choices[@]}"; do
    read -r hash group <<<"$choice"
    must "rblkd with $hash and $group" target host \
        "dhchap_ctrl_key_file: $keys/ctrl, dhchap_hashes: [$hash], dhchap_dhgroups: [$group]"
    check "  the host proves itself" reads --dhchap-secret="$(key host)"
    check "  and so does rblkd" reads --dhchap-secret="$(key host)" --dhchap-ctrl-secret="$(key ctrl)"
    check "  rblkd stops" rblkd_stop
done
for hash in 1 2 3; do
    must "rblkd with a key of nvme gen-dhchap-key --hmac=$hash" target nvme$hash "$only_quick"
    check "  the host proves itself" reads --dhchap-secret="$(key nvme$hash)"
    check "  rblkd stops" rblkd_stop
done

(umask 077; cat $keys/other $keys/host >$keys/both)
must "rblkd with two keys" target both "$only_quick"
check "  the first is good" reads --dhchap-secret="$(key other)"
check "  the second is good" reads --dhchap-secret="$(key host)"
check_fails "  a third is not" . twice nvme connect -t rdma -a "$TARGET" -s $PORT -n $nqn --dhchap-secret="$(key ctrl)"
like "  and rblkd says why" "$(tail -n 20 /run/rblkd.log)" "host $me: refused at $nqn .*its response is wrong"
check_fails "  none is not" . twice nvme connect -t rdma -a "$TARGET" -s $PORT -n $nqn
check_fails "  a target that cannot prove itself is refused" . \
    nvme connect -t rdma -a "$TARGET" -s $PORT -n $nqn --dhchap-secret="$(key host)" --dhchap-ctrl-secret="$(key ctrl)"
like "  and rblkd says why" "$(tail -n 20 /run/rblkd.log)" "it wants us to prove ourselves"

must "connect, to authenticate again" nvme_connect $nqn --nr-io-queues=2 --dhchap-secret="$(key host)"
said=$(wc -l </run/rblkd.log)
disk=$(nvme_disk "$(nvme_ctrl $nqn)")
check "  fio begins" fio_begin "$disk" 4k 8 8
# writing the secret makes the kernel authenticate every queue again
check "  authenticate all queues again, with the other key" \
    eval 'echo "$(key other)" >/sys/class/nvme/$(nvme_ctrl $nqn)/dhchap_secret'
check "  fio verifies everything" fio_end
check "  the host never lost its controller" eval '! tail -n +$((said + 1)) /run/rblkd.log | grep "disconnected from.*$nqn"'
nvme disconnect -n $nqn >/dev/null
rblkd_done "$base"
for name in host ctrl other nvme1 nvme2 nvme3; do
    check "no secret in the log: $name" eval '! grep -qF "$(cut -d: -f3 $keys/$name)" /run/rblkd.log'
done

# --- rblk at the kernel's target ---
disk=$(ram_disk 24)
nvmet_up
mkdir -p $nvmet/subsystems/$kernel_nqn $nvmet/hosts/"$me"
echo 0 >$nvmet/subsystems/$kernel_nqn/attr_allow_any_host
mkdir $nvmet/subsystems/$kernel_nqn/namespaces/1
echo -n "$disk" >$nvmet/subsystems/$kernel_nqn/namespaces/1/device_path
echo 1 >$nvmet/subsystems/$kernel_nqn/namespaces/1/enable
ln -s $nvmet/hosts/"$me" $nvmet/subsystems/$kernel_nqn/allowed_hosts/
key host >$nvmet/hosts/"$me"/dhchap_key
key ctrl >$nvmet/hosts/"$me"/dhchap_ctrl_key
must "nvmet listens" nvmet_port "$TARGET"
for choice in "${nvmet_choices[@]}"; do
    read -r hash group <<<"$choice"
    echo "$hash" >$nvmet/hosts/"$me"/dhchap_hash
    echo "$group" >$nvmet/hosts/"$me"/dhchap_dhgroup
    check "nvmet with $hash and $group: rblk proves itself" rblk_serve $kernel_nqn@"$TARGET":$PORT \
        --dhchap-secret-file $keys/host /run/a.sock
    is "  and uses it" "$(nbdinfo --size "nbd+unix:///?socket=/run/a.sock")" "$(blockdev --getsize64 "$disk")"
    check "  and ends" rblk_serve_stop
    check "  both prove themselves" rblk_serve $kernel_nqn@"$TARGET":$PORT --name vol \
        --dhchap-secret-file $keys/host --dhchap-ctrl-secret-file $keys/ctrl /run/b.sock
    check "  fio verify" fio_verify - 4k 16 2m --ioengine=nbd --uri="nbd+unix:///vol?socket=/run/b.sock"
    check "  and ends" rblk_serve_stop
done
# nvmet says so, or closes the connection before it is asked
check_fails "a wrong secret is refused" "the target refuses us|closed the connection \(while authenticating\)" \
    rblk serve $kernel_nqn@"$TARGET":$PORT --frontend socket --socket /run/c.sock --dhchap-secret-file $keys/other
check_fails "a wrong target is refused" "authentication failed: the target's response is wrong" \
    rblk serve $kernel_nqn@"$TARGET":$PORT --frontend socket --socket /run/c.sock --dhchap-secret-file $keys/host \
    --dhchap-ctrl-secret-file $keys/other
rm $nvmet/subsystems/$kernel_nqn/allowed_hosts/*
for d in $nvmet/ports/*/subsystems/*; do rm "$d"; done
rmdir $nvmet/ports/1 $nvmet/subsystems/$kernel_nqn/namespaces/1 $nvmet/subsystems/$kernel_nqn $nvmet/hosts/*
left_nothing "$base"
rblk_tell
done_testing
