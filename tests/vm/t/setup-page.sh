# vm: on=6.1/rxe mem=3072
# The blocks of docs/SETUP.md, word by word and in their order, in a machine that is target and host. Between them an
# administrator does what the page says in words. Blocks that are marked there as not run are left out; dpkg installs in
# place of apt, which would need an archive. A block that is part of a configuration is part of those of two rblkd.
. tests/vm/rblk.sh
. tests/vm/systemd.sh
unset -f rblk rblkctl # the programs that the packages install, not those of a build

# --- before systemd -----------------------------------------------------------------------------------------------

if [ ! -e /run/booted ]; then
    fabric
    host_identity
    ip addr add 192.0.2.1/24 dev eth0
    ip addr add 198.51.100.1/24 dev eth0
    install_packages rblk-target rblk-initiator softrdma
    under=$(ram_disk 160)
    disk=$(ram_disk 32 4096)
    mkfs.ext4 -q "$under" && mount "$under" /srv
    mkdir -p /srv/rblk /srv/db
    truncate -s 1M /srv/rblk/installer.img
    chown -R rblk: /srv/rblk
    # The administrator's edits: this host, this disk, files that fit; the disk comes later.
    cat >/usr/local/bin/editor <<END
#!/bin/sh
sed -i -e "s/nqn.2014-08.org.nvmexpress:uuid:[-0-9a-f]*/\$(cat /etc/nvme/hostnqn)/" \
    -e 's|/dev/disk/by-id/nvme-example-part2|$disk|' -e 's/100GiB/64MiB/;s/10GiB/8MiB/;s/ram: 1GiB/ram: 16MiB/' \
    -e '/- nsid: 2/,/uuid: /s/^/#/' "\$1"
END
    chmod +x /usr/local/bin/editor
    truncate -s 0 /etc/fstab
fi
boot_systemd

# --- the booted system --------------------------------------------------------------------------------------------

python3 - docs/SETUP.md /run <<'END'
import re, sys, textwrap
sys.path.insert(0, "tests/packaging")
sys.dont_write_bytecode = True
from test_pages import blocks
def is_keys(text):
    return text.split()[0].endswith(":")
for line, text, reason in blocks(sys.argv[1]):
    if not reason:
        with open(f"{sys.argv[2]}/block.{line:04}", "w", encoding="utf-8") as f:
            f.write("" if is_keys(text) else "set -e\n")
            f.write(textwrap.dedent(text).replace("apt install", "dpkg -i --no-triggers") + "\n")
END

# pair KEYS: two rblkd that have these keys, "and these differ", in place of the service
pair() {
    local name number=0
    install -d -o rblk -g rblk /var/lib/rblk-groups # "a directory of user rblk"
    systemctl stop rblkd # which has that file
    for name in first second; do
        number=$((number + 1))
        install -d -o rblk -g rblk /run/pair/$name
        {
            printf 'version: 1\ncontrol_socket: /run/pair/%s/sock\nstate_directory: /run/pair/%s\n' $name $name
            printf 'controller_ids: {min: %s000, max: %s999}\n' $number $number
            printf 'portals: [{name: p, address: 192.0.2.1, port: %s}]\n' $((4500 + number))
            cat "$1"
            echo "    allow_any_host: true" # of the last subsystem
        } >/run/pair/$name.yaml
        systemd-run -q --unit pair-$name -p User=rblk -p LimitMEMLOCK=infinity rblkd --config /run/pair/$name.yaml || return
        wait_for 60 rblkctl status --socket /run/pair/$name/sock || return
    done
}
group_of() { rblkctl group list -o json --socket /run/pair/"$1"/sock | grep -o '"state": *"[a-z ]*"' | cut -d'"' -f4; }
group_is() { [ "$(group_of "$1")" = "$2" ]; }

# before each block: what the page says in words
prepare() {
    case $(<"$1") in
    *disks.conf*) # "to export disks"
        sed -i '/^#.*- nsid: 2/,/^#.*uuid: /s/^#//' /etc/rblk/target.yaml ;;
    *"rblkctl diff"*) # "edit the file"
        sed -i 's/size: 64MiB/size: 80MiB/' /etc/rblk/target.yaml ;;
    *"rblk-target_"*"rblkctl status" | *"rblkctl upgrade"*)
        before=$(main_pid rblkd) ;;
    *node-exporter*) # "of the node exporter", whose package makes it
        mkdir -p /var/lib/prometheus/node-exporter ;;
    *"group give"*)
        is "  the first is the owner" "$(group_of first)" owner
        export RBLK_CONTROL_SOCKET=/run/pair/first/sock ;;
    *"volumes/db.conf"*) # one volume of a name
        check "rblk detach" rblk detach db ;;
    esac
}

# after it: what it is for
look_at() {
    case $(<"$1") in
    *"systemctl start rblkd"*)
        is "  rblkd listens" "$(state rblkd)" active ;;
    *disks.conf*)
        like "  the disk is exported" "$(rblkctl list namespaces)" "$(basename "$(ls /dev/nullb1)")" ;;
    *"systemctl reload"*)
        like "  the file has grown" "$(rblkctl list namespaces)" '80MiB' ;;
    "group_directory:"*)
        check "  the second stands by" wait_for 20 group_is second "standing by" ;;
    *"group give"*)
        unset RBLK_CONTROL_SOCKET
        check "  the other is the owner" wait_for 20 group_is second owner
        systemctl stop pair-first pair-second
        check "  the service has its file back" systemctl start rblkd ;;
    *"rblk attach"*)
        is "  by two paths" "$(rblk status db -o json | grep -o '"paths_live": *[0-9]*' | grep -o '[0-9]*$')" 2 ;;
    *"volumes/db.conf"*)
        check "  the volume is there" wait_for 30 test -b /dev/disk/by-rblk/db
        check "  a file system on it" mkfs.ext4 -q /dev/disk/by-rblk/db
        check "  is mounted by its line" eval 'systemctl daemon-reload && mount /srv/db && touch /srv/db/here' ;;
    *"rblk-target_"*"rblkctl status" | *"rblkctl upgrade"*)
        check "  another rblkd serves" eval "[ \$(main_pid rblkd) != $before ] && systemctl -q is-active rblkd"
        check "  the file system is there" touch /srv/db/after ;;
    *ip.conf*)
        like "  it may use IP" "$(property rblk-volume@db RestrictAddressFamilies)" 'AF_INET6' ;;
    esac
}

# The page's commands are a shell's, and its keys the two rblkd's.
runner() { case $(<"$1") in "group_directory:"*) echo pair ;; *) echo bash ;; esac; }

n=0
for block in /run/block.*; do
    n=$((n + 1))
    prepare "$block"
    check "line ${block##*.}: $(sed '2!d;s/ *#.*//' "$block" | cut -c1-60)" "$(runner "$block")" "$block"
    look_at "$block"
done
is "blocks that were run" "$n" 13
[ $failed = 0 ] || journalctl -b -u 'rblk*' --no-pager | tail -n 60 | sed 's/^/#   /'
done_testing
