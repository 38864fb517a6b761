# vm: on=6.1/siw also=6.12/rxe needs=rblk,rblkd
# /dev/nbdN under a mounted file system and running fio while the volume process or the target is restarted, planned
# and by kill -9: no error reaches fio or the file system.
. tests/vm/rblk.sh
nqn=nqn.2024-01.test:restart

trap '[ $failed = 0 ] || tail -n 40 /run/rblk/volumes/data.log 2>/dev/null | sed "s/^/#   volume: /"' EXIT
fabric
host_identity
nbd_up
disks 256 32
rblkd_serves $nqn "file: $file"
must "rblk attach" nbd_attach $nqn data --reconnect-delay 1s
dev=$(nbd_attached)
[ -b "$dev" ] || done_testing
check "mkfs.ext4, mount" eval "mkfs.ext4 -q $dev && mount $dev /mnt"

load() { fio_begin /mnt/file 4k 16 "$1"; }
volume_pid() { rblk status data -o json | jq -r '.. | .pid? // empty' | head -1; }
in_order() { ! dmesg | grep -E 'I/O error|EXT4-fs error|Aborting journal|remount'; }

load 15
sleep 2
kill -9 "$rblkd"
sleep 1
check "rblkd starts again after kill -9" rblkd_start </dev/null
check "  fio verified everything" fio_end
check "  the file system saw nothing" in_order

load 15
sleep 2
check "rblkd stops" rblkd_stop
sleep 2
check "  and starts again" rblkd_start </dev/null
check "  fio verified everything" fio_end
check "  the file system saw nothing" in_order

load 20
sleep 2
pid=$(volume_pid)
check "the volume process is killed with -9" kill -9 "$pid"
# as rblk-volume@.service would
must "  attached again, it takes the same device over" eval "[ \"\$(nbd_attach $nqn data)\" = $dev ]"
check "  fio verified everything" fio_end 120
check "  the file system saw nothing" in_order

load 20
sleep 2
pid=$(volume_pid)
check "the volume process is told to stop: it leaves the device that is in use" kill -TERM "$pid"
check "  and ends" wait_for 20 test ! -e "/proc/$pid/exe"
check "  the device is still there" test -e "/sys/block/${dev##*/}/pid"
must "  attached again, it takes the same device over" eval "[ \"\$(nbd_attach $nqn data)\" = $dev ]"
check "  fio verified everything" fio_end 120
check "  the file system saw nothing" in_order
is "  its name is still its name" "$(cut -d' ' -f1 /run/rblk/by-uuid/*)" data

check "umount" umount /mnt
check "fsck" e2fsck -fn "$dev"

# not mounted, only open
fio_begin "$dev" 4k 16 20
sleep 2
pid=$(volume_pid)
check "the volume process is told to stop: it leaves a device that is only open" kill -TERM "$pid"
check "  and ends" wait_for 20 test ! -e "/proc/$pid/exe"
must "  attached again, it takes the same device over" eval "[ \"\$(nbd_attach $nqn data)\" = $dev ]"
check "  fio verified everything" fio_end 120

mark=$(dmesg_mark)
check "rblk detach" rblk detach data
check "  the device is gone" wait_for 5 test ! -e "/sys/block/${dev##*/}/pid"
check "  the kernel complains of nothing" eval "! dmesg_since $mark | grep -iE 'error|fail|attempted'"
check "  no file is left that names it" eval '[ -z "$(ls /run/rblk/by-uuid)" ]'

must "rblk attach" nbd_attach $nqn data
pid=$(volume_pid)
check "the volume process is told to stop while the device is not in use" kill -TERM "$pid"
check "  and ends" wait_for 20 test ! -e "/proc/$pid/exe"
check "  with it the device" wait_for 5 test ! -e "/sys/block/${dev##*/}/pid"

must "rblk attach" nbd_attach $nqn data
check "the volume process is killed, and is not attached again" kill -9 "$(volume_pid)"
like "  rblk list shows what is left" "$(rblk list)" '^data +/dev/nbd[0-9]+ .*left-behind'
check_fails "  rblk detach says what is left" 'process of volume .data. is gone.*holds its I/O' rblk detach data
check "  rblk detach --force ends it" rblk detach --force data
check "  the device is gone" wait_for 5 test ! -e "/sys/block/${dev##*/}/pid"
check_fails "  there is nothing more to detach" "no volume 'data'" rblk detach data
rblkd_done "$base"
done_testing
