#!/bin/bash
# PID 1 of the machine, after init has prepared it to resemble a Debian system: runs the test script as root, writes its
# exit status where the host reads it, and powers off.
export PATH=/run/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
# not C.UTF-8: for that each program opens a dozen more files at its start
export LC_ALL=C
OUT=/run/out
set -a
. $OUT/env
set +a
export OUT ROLE NODE

ulimit -l unlimited
ulimit -c 0
for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do [ ! -e "$cpu" ] || echo 1 >"$cpu"; done

cd "$VM_REPO" || exit
args=()
[ ! -e $OUT/args ] || mapfile -d '' -t args <$OUT/args
touch $OUT/booted.$ROLE
bash "$VM_SCRIPT" "${args[@]}" >$OUT/log.$ROLE 2>&1
rc=$?
# a script that continues in a whole system (systemd.sh) has left its init here
[ $rc != 0 ] || [ ! -x /run/init ] || exec /run/init
dmesg >$OUT/dmesg.$ROLE
echo $rc >$OUT/status.$ROLE
sync -f $OUT
# -f: there is no init to notify; -n: a device that hangs must not delay the end of the machine
busybox poweroff -n -f
