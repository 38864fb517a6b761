# shellcheck shell=bash
# What the host-side programs of tests/vm share: the place of the kernels, and failing or skipping with a reason.

vm_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$vm_dir/../.." && pwd)
cache=${RBLK_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rblk-vm}
kernels=(6.1 6.12)
PATH=$PATH:/usr/sbin:/sbin

die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# skip WHY: meson and automake call exit status 77 a skipped test
skip() { printf '%s: skipped: %s\n' "${0##*/}" "$*" >&2; exit 77; }

# kmod NAME ARGS...: depmod or modprobe, the host's own or the one that `fetch` put beside the kernels
kmod() {
    local name=$1; shift
    if command -v "$name" >/dev/null; then "$name" "$@"; return; fi
    LD_LIBRARY_PATH=$cache/tools/usr/lib/x86_64-linux-gnu \
        "$cache/tools/usr/bin/kmod-as" "$name" "$@"
}

# apt's lists may be empty, or old; only root can update them.
apt_refresh() { [ "$(id -u)" = 0 ] && apt-get -qq update >/dev/null 2>&1; }
apt_download() { apt-get -qq -o APT::Sandbox::User=root download "$@"; }

# unpack DIR PACKAGE...: download and unpack, /bin and /lib folded into /usr as on an installed system, so that the
# tree can lie in an overlay over one. Drivers that no virtual machine has are left out: half of the volume.
unpack() {
    local dir=$1 debs; shift
    debs=$(mktemp -d "$cache/debs.XXXXXX")
    (cd "$debs" && { apt_download "$@" 2>/dev/null || { apt_refresh && apt_download "$@"; }; }) ||
        die "cannot download $*"
    mkdir -p "$dir/usr"
    for deb in "$debs"/*.deb; do
        dpkg --fsys-tarfile "$deb" | tar -x -C "$dir" --no-same-owner \
            --exclude='*/drivers/'{gpu,media,staging,iio,usb,hid,input,bluetooth,comedi,mtd,hwmon} \
            --exclude='*/drivers/net/'{wireless,ethernet,can,usb,dsa} --exclude='*/sound' --exclude='*/net/wireless' \
            --exclude='*/usr/share/doc' --exclude='*/usr/share/man'
    done
    for top in bin sbin lib lib64; do
        [ -d "$dir/$top" ] || continue
        mkdir -p "$dir/usr/$top"
        cp -a "$dir/$top/." "$dir/usr/$top/"
        rm -rf "${dir:?}/$top"
    done
    rm -rf "$debs"
}
