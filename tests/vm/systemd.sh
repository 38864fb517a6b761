# shellcheck shell=bash
# For scripts that need a whole system: the script prepares it and calls boot_systemd; systemd then takes the place of
# PID 1, boots, and runs the script again, where boot_systemd returns. Used beside lib.sh.

boot_systemd() {
    local unit=/etc/systemd/system
    if [ -e /run/booted ]; then
        wait_for 60 systemctl -q is-active multi-user.target
        result "systemd is PID 1 and boots" "$([ "$(</proc/1/comm)" = systemd ] && systemctl is-active multi-user.target >/dev/null && echo ok || echo "not ok")"
        return
    fi
    ln -sfn /lib/systemd/system/multi-user.target $unit/default.target
    systemctl -q mask serial-getty@ttyS0.service systemd-logind.service systemd-update-utmp.service \
        systemd-update-utmp-runlevel.service systemd-networkd.service networking.service \
        console-getty.service dbus.service dbus.socket
    # The host may be a container, but this machine is none: mounts are shared, packages start and stop services.
    rm -f /.dockerenv /usr/sbin/policy-rc.d
    # it would walk through all of the host's /tmp
    ln -s /dev/null /etc/tmpfiles.d/tmp.conf
    cat >$unit/vm-test.service <<END
[Service]
ExecStart=/bin/bash /run/booted
StandardOutput=append:$OUT/log.$ROLE
StandardError=inherit
[Install]
WantedBy=multi-user.target
END
    systemctl -q enable vm-test.service
    # a machine may boot slowly
    mkdir -p /etc/systemd/system.conf.d
    printf '[Manager]\nDefaultTimeoutStartSec=600\nDefaultTimeoutStopSec=600\n' >/etc/systemd/system.conf.d/vm.conf
    # the console of a failed run shows it in any case
    mkdir -p /etc/systemd/journald.conf.d
    printf '[Journal]\nStorage=volatile\nForwardToConsole=yes\n' >/etc/systemd/journald.conf.d/vm.conf
    {
        export -p
        # lib.sh starts counting from zero
        cat <<END
cd $VM_REPO
systemd_counts='tests=$tests failed=$failed' bash $VM_SCRIPT
rc=\$?
dmesg >$OUT/dmesg.$ROLE
journalctl -b >$OUT/journal.$ROLE
echo \$rc >$OUT/status.$ROLE
sync -f $OUT
busybox poweroff -f
END
    } >/run/booted
    ln -s /lib/systemd/systemd /run/init
    exit 0
}

# few_installed DEB...: cuts what dpkg takes for installed to what these depend on, for it reads each package's list of
# files, and a host may have thousands
few_installed() {
    local deb names status=/var/lib/dpkg/status
    names=$(for deb; do dpkg-deb -f "$deb" Depends; done | sed 's/([^)]*)//g;s/[,|]/ /g')
    awk -v RS= -v ORS='\n\n' -v names="dpkg ${names//$'\n'/ }" 'BEGIN { n = split(names, a, " "); while (n) wanted[a[n--]] }
        match($0, /(^|\n)Package: [^\n]*/) { split(substr($0, RSTART, RLENGTH), name, ": "); if (name[2] in wanted) print }' \
        $status >/run/status && mv /run/status $status
}

# install_packages NAME...: of those that tools/deb has built
install_packages() {
    local debs=$VM_REPO/build/deb name
    local -a packages
    ls "$debs"/*.deb >/dev/null 2>&1 || skip_all "no packages in build/deb: tools/deb builds them"
    for name in dpkg systemctl; do command -v $name >/dev/null || skip_all "needs $name"; done
    for name; do packages+=("$debs/$name"_*.deb); done
    few_installed "${packages[@]}"
    # triggers: the index of all manual pages would be made anew
    must "the packages install" dpkg -i --no-triggers "${packages[@]}"
}

# of a unit: its state, a property, the pid of its process
state() { systemctl is-active "$1"; }
property() { systemctl show -P "$2" "$1"; }
main_pid() { property "$1" MainPID; }

# Only those of the host's enabled units that mount file systems start here.
if [ ! -e /run/booted ]; then
    find /etc/systemd/system -path '*.wants/*' ! -name remote-fs.target -delete
fi
eval "${systemd_counts:-}"
