#!/bin/bash
# PID 1 of the machine: makes it look enough like a Debian system, runs the test script as root, writes down its exit
# status where the host sees it, and powers off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C.UTF-8
OUT=/run/out
set -a
. $OUT/env
set +a
ROLE=$(sed -n 's/.*vm_role=\([a-z]*\).*/\1/p' /proc/cmdline)
NODE=$(sed -n 's/.*vm_node=\([0-9]*\).*/\1/p' /proc/cmdline)
export OUT ROLE NODE

mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ln -sfn /proc/self/fd /dev/fd
mkdir -p /run/lock
hostname "$ROLE"
ulimit -l unlimited
ulimit -c 0
ip link set lo up
modprobe -q virtio_net
ip link set eth0 up
ip addr add "10.77.0.$NODE/24" dev eth0

for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do [ ! -e "$cpu" ] || echo 1 >"$cpu"; done

cd "$VM_REPO" || exit
args=()
[ ! -e $OUT/args ] || mapfile -d '' -t args <$OUT/args
touch $OUT/booted.$ROLE
bash "$VM_SCRIPT" "${args[@]}" >$OUT/log.$ROLE 2>&1
rc=$?
# a script that goes on in a whole system (systemd.sh) has left its init here
[ $rc != 0 ] || [ ! -x /run/init ] || exec /run/init
dmesg >$OUT/dmesg.$ROLE
echo $rc >$OUT/status.$ROLE
sync -f $OUT
# -f: there is no init to ask; -n: a device that hangs must not keep the machine
busybox poweroff -n -f
