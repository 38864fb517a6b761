# vm: on=6.1/rxe also=6.12/siw mem=3072
# The Debian packages in a machine that runs systemd: they install; at boot rblkd is ready when its portals listen, a
# volume is attached before remote file systems and one is mounted from it; what restarts, refuses and stops as it should.
. tests/vm/rblk.sh
. tests/vm/systemd.sh
nqn=nqn.2024-01.test:boot
# the programs that the packages install, not those of a build
unset -f rblk rblkctl

# --- before systemd -----------------------------------------------------------------------------------------------

if [ ! -e /run/booted ]; then
    fabric
    host_identity
    install_packages rblk-target rblk-initiator softrdma

    # a file system in a file, on a disk that takes O_DIRECT, and a disk
    under=$(ram_disk 160)
    disk=$(ram_disk 32 4096)
    mkdir -p /srv /mnt/data /run/tree
    mkfs.ext4 -q "$under" && mount "$under" /srv
    mkdir -p /srv/rblk
    cp -a /usr/share/doc/liba* /run/tree/
    must "a file system to export" mke2fs -q -t ext4 -d /run/tree /srv/rblk/data.img 96M
    chown -R rblk: /srv/rblk
    one_subsystem $nqn "file: /srv/rblk/data.img" "device: $disk, block_size: 4096" >/etc/rblk/target.yaml
    # as docs/SETUP.md says
    mkdir -p /etc/systemd/system/rblkd.service.d
    cp /usr/share/doc/rblk-target/examples/disks.conf /etc/systemd/system/rblkd.service.d/
    for name in data raw; do
        [ $name = data ] && nsid=1 || nsid=2
        printf 'TARGET=%s\nOPTIONS=--ns %s --queues 2\n' "$nqn@$TARGET:$PORT" $nsid >/etc/rblk/volumes/$name.conf
    done
    check "volumes are enabled" systemctl -q enable rblk-volume@data rblk-volume@raw
    echo "/dev/disk/by-rblk/data /mnt/data ext4 _netdev,x-systemd.device-timeout=600 0 0" >/etc/fstab
fi
boot_systemd

# --- the booted system --------------------------------------------------------------------------------------------

# since UNIT: when it became active, in microseconds since boot
since() { property "$1" ActiveEnterTimestampMonotonic; }
# in_order UNIT...: each became active after the one before
in_order() {
    local last=0 at unit
    for unit; do
        at=$(since "$unit")
        echo "$unit: $at us"
        [ "$at" -gt "$last" ] || return
        last=$at
    done
}
fd_of() { find "/proc/$(main_pid "$1")/fd" -lname "$2" | grep -q .; }
# replaced PID: the volume's process is another one, and ready; between two processes it is 0
replaced() {
    local now
    now=$(main_pid rblk-volume@data)
    [ "$now" != 0 ] && [ "$now" != "$1" ] && systemctl -q is-active rblk-volume@data
}
linked() { [ -b "/dev/disk/by-rblk/$1" ]; }
# serves_after PID: rblkd is another process, and listens; between two processes it is 0
serves_after() {
    local now
    now=$(main_pid rblkd)
    [ "$now" != 0 ] && [ "$now" != "$1" ] && systemctl -q is-active rblkd && listening
}
# rebuilt NAME VERSION [COMMAND...]: prints a package as that one, of that version; the command changes it, in its folder
rebuilt() {
    local dir=/run/rebuilt.$2 deb=/run/$1.$2.deb
    dpkg-deb -R "$VM_REPO/build/deb/$1"_*.deb "$dir" && sed -i "s/^Version: .*/Version: $2/" "$dir/DEBIAN/control" || return
    (cd "$dir" && "${@:3}") && dpkg-deb -Znone -b "$dir" "$deb" >/dev/null && echo "$deb"
}
# installs DEB: what dpkg says is in /run/dpkg
installs() { dpkg -i --no-triggers "$1" >/run/dpkg 2>&1 || { cat /run/dpkg; return 1; }; }
does_not_start() { printf '#!/bin/sh\nexit 1\n' >usr/sbin/rblkd; }

wait_for 60 mountpoint -q /mnt/data
for unit in rblkd.service rblk-volume@data.service rblk-volume@raw.service mnt-data.mount remote-fs.target; do
    is "$unit at boot" "$(state $unit)" active
done
check "target, volume, mount, remote file systems: in this order" in_order rblkd.service \
    rblk-volume@data.service remote-fs-pre.target mnt-data.mount remote-fs.target
check "the mounted file system is what was exported" diff -r --no-dereference /run/tree /mnt/data -x lost+found
is "no empty /dev/nbdN" "$(cat /sys/module/nbd/parameters/nbds_max)" 0
check "fio verifies on the exported disk" fio_verify /dev/disk/by-rblk/raw 4k 16 4m

pid=$(main_pid rblkd)
is "rblkd is user rblk" "$(stat -c %U "/proc/$pid")" rblk
like "  without capabilities" "$(cat "/proc/$pid/status")" 'CapEff:.0000000000000000'
like "  in a seccomp filter" "$(cat "/proc/$pid/status")" 'Seccomp:.2'
like "  with memory to lock" "$(cat "/proc/$pid/limits")" 'Max locked memory +unlimited'
like "rblkctl finds it" "$(rblkctl status 2>&1)" 'portals 1/1'
is "the volume process is the last that the kernel kills" "$(cat "/proc/$(main_pid rblk-volume@data)/oom_score_adj")" -1000
# a thread that polls reads there whether others wait for the CPU (base/crowd.h)
for unit in rblkd rblk-volume@data; do
    check "$unit sees how many threads run" fd_of "$unit" /proc/loadavg
done

fio_begin /mnt/data/fio 4k 8 8
sleep 2
check "rblkd restarts under load" systemctl restart rblkd
check "  and listens when that returns" listening
check "  fio saw nothing of it" fio_end
fio_begin /mnt/data/fio 4k 8 8
sleep 2
pid=$(main_pid rblkd)
check "another rblkd takes over under load" rblkctl upgrade
check "  and is the process of the service" eval "[ \$(main_pid rblkd) != $pid ] && systemctl -q is-active rblkd"
check "  fio saw nothing of it" fio_end
check "  the service goes on: it reloads" systemctl reload rblkd

fio_begin /mnt/data/fio 4k 8 24
sleep 2
pid=$(main_pid rblkd)
check "a newer package is installed under load" installs "$(rebuilt rblk-target 9.1 true)"
like "  its rblkd takes over" "$(cat /run/dpkg)" 'rblk-target: upgraded: rblkd'
upgraded=$(main_pid rblkd)
check "  and is the process of the service" eval "[ $upgraded != $pid ] && systemctl -q is-active rblkd"
check "one whose rblkd does not start is installed under load" installs "$(rebuilt rblk-target 9.2 does_not_start)"
like "  which is said" "$(cat /run/dpkg)" 'rblkd goes on with the program that it was'
is "  the one before goes on" "$(main_pid rblkd) $(state rblkd)" "$upgraded active"
check "one that does is installed under load" installs "$(rebuilt rblk-target 9.3 true)"
like "  its rblkd takes over" "$(cat /run/dpkg)" 'rblk-target: upgraded: rblkd'
check "  and is the process of the service" eval "[ \$(main_pid rblkd) != $upgraded ] && systemctl -q is-active rblkd"
check "  fio saw nothing of it" fio_end
is "  and each volume is as it was" "$(state rblk-volume@data) $(state rblk-volume@raw)" "active active"
pid=$(main_pid rblkd)
kill -9 "$pid"
check "rblkd starts again after kill -9" wait_for 60 serves_after "$pid"
pid=$(main_pid rblkd)
rblkctl upgrade >/run/upgrade 2>&1 &
sleep 0.5
kill -9 "$pid"
check "  and after kill -9 in an upgrade" wait_for 60 serves_after "$pid"
is "  one rblkd is left" "$(pgrep -x rblkd)" "$(main_pid rblkd)"

device=$(readlink -f /dev/disk/by-rblk/data)
queue=/sys/block/${device##*/}/queue
is "the unit lets it set the device up" "$(sed 's/.*\[//;s/\].*//' $queue/scheduler) $(cat $queue/io_timeout)" "none 10000"
fio_begin /mnt/data/fio 4k 8 8
sleep 2
check "a volume restarts under a mounted file system" systemctl restart rblk-volume@data
is "  on the same device" "$(readlink -f /dev/disk/by-rblk/data)" "$device"
check "  fio saw nothing of it" fio_end
pid=$(main_pid rblk-volume@data)
kill -TERM "$pid"
check "another volume process takes the place of one that was ended" wait_for 30 replaced "$pid"
is "  on the same device" "$(readlink -f /dev/disk/by-rblk/data)" "$device"
pid=$(main_pid rblk-volume@data)
kill -9 "$pid"
check "another volume process takes the place of a killed one" wait_for 30 replaced "$pid"
is "  on the same device" "$(readlink -f /dev/disk/by-rblk/data)" "$device"
check "  the file system saw nothing of it" touch /mnt/data/alive
check "  nor did the kernel" eval "! dmesg | grep -E 'I/O error|EXT4-fs error'"
check_fails "a mounted volume is not detached" 'mounted on /mnt/data' rblk detach data
check "umount" umount /mnt/data
check "rblk detach" rblk detach data
check "  and it stays detached" eval 'sleep 3; ! systemctl -q is-active rblk-volume@data && ! linked data'
check "it starts again" systemctl start rblk-volume@data
check "  with its name there at once" linked data
check "    which systemd waited for" eval '! journalctl -b -u rblk-volume@data | grep udevadm'
check "it stops, and detaches what is not in use" systemctl stop rblk-volume@raw
check "  the device is gone" eval '! linked raw'

check "the target is removed" dpkg -r --no-triggers rblk-target
is "  rblkd with them" "$(state rblkd)" inactive
[ $failed = 0 ] || journalctl -b -u 'rblk*' --no-pager | tail -n 60 | sed 's/^/#   /'
done_testing
