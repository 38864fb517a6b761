#!/bin/bash
# The files that `meson install` installs: they are complete, systemd accepts the units, and the services are as
# restricted as documented. units.sh BUILD PREFIX SBINDIR
build=$1 prefix=$2 sbindir=$3
source=$(cd "$(dirname "$0")/../.." && pwd)
PATH=$PATH:/usr/sbin:/sbin

n=0 failed=0
result() { n=$((n + 1)); echo "$1 $n - $2"; }
skip() { result ok "$1 # SKIP $2"; }
check() {
	local what=$1 said; shift
	if said=$("$@" 2>&1); then result ok "$what"; return; fi
	failed=1
	result "not ok" "$what"
	tail -n 20 <<<"$said" | sed 's/^/# /'
}
is() { check "$1" test "$2" = "$3"; }
done_testing() { echo "1..$n"; exit $failed; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

check "meson install" meson install -C "$build" --no-rebuild --quiet --destdir "$root"
system=$root$prefix/lib
[ "$prefix" != /usr ] || system=$root/lib

wanted="$prefix/bin/rblkctl $prefix/bin/softrdma $sbindir/rblkd $sbindir/rblk
	$prefix/lib/sysusers.d/rblk-target.conf $prefix/lib/tmpfiles.d/rblk-target.conf
	$prefix/share/bash-completion/completions/rblk
	$prefix/share/bash-completion/completions/rblkctl
	$prefix/share/rblk/monitoring/rblk-alerts.yaml $prefix/share/rblk/monitoring/rblk-dashboard.json
	$prefix/share/rblk/monitoring/rblkd-alerts.yaml $prefix/share/rblk/monitoring/rblkd-dashboard.json
	$prefix/share/doc/rblk/examples/target.yaml $prefix/share/doc/rblk/examples/ram.yaml"
for file in $wanted; do check "$file" test -s "$root$file"; done
for file in modprobe.d/rblk.conf udev/rules.d/60-rblk.rules; do
	check "$file" test -s "$system/$file"
done
check "softrdma finds its library" "$root$prefix/bin/softrdma" true
for file in "$root$prefix"/share/bash-completion/completions/*; do
	check "completion of ${file##*/} is bash" bash -n "$file"
done
# offers PROGRAM "WORD..." WANTED...: after those words, which may be none
offers() {
	local program=$root$1 wanted offered
	offered=$("$source/tests/packaging/complete.sh" "$root$prefix/share/bash-completion/completions/${1##*/}" \
		"$program" $2 '')
	for wanted in "${@:3}"; do
		grep -qx -- "$wanted" <<<"$offered" || { echo "no $wanted in: $offered"; return 1; }
	done
}
ctl=$prefix/bin/rblkctl rblk=$sbindir/rblk
check "completion of rblkctl offers its commands" offers "$ctl" "" status ns upgrade gen-key
check "completion of rblkctl offers second words" offers "$ctl" registrant list drop
check "completion of rblkctl offers choices" offers "$ctl" "group list -o" table json
check "completion of rblk offers its commands" offers "$rblk" "" attach path doctor
check "completion of rblk offers choices" offers "$rblk" "path add --output" table json

check "an example runs as it is" "$root$sbindir/rblkd" --check --config "$root$prefix/share/doc/rblk/examples/ram.yaml"

# tools/deb "installs what it needs": the build dependencies of the source package, and the programs that the script
# itself calls
has_packages() (
	eval "$(sed -n '/^build=/,/^bench=/p' "$source/tools/packages")"
	has=" $(echo $build $deb) " lacks=
	for package in git build-essential $(sed -n '/^Build-Depends:/,/^Standards/ s/^ \([a-z0-9.-]*\).*/\1/p' \
		"$source/debian/control"); do
		[ "$package" != debhelper-compat ] || package=debhelper
		[[ $has == *" $package "* ]] || lacks+=" $package"
	done
	[ -z "$lacks" ] || ! echo "it lacks$lacks"
)
check "tools/packages has what tools/deb needs" has_packages

# other systems' names, by an os-release that says so
names_of() {
	printf '%s\n' "$1" "$2" >"$root/os-release"
	RBLK_OS_RELEASE=$root/os-release bash "$source/tools/packages" --list build run test
	local code=$?
	rm "$root/os-release"
	return $code
}
knows() {
	local names; names=$(names_of "$1" "$2") || return
	shift 2
	for name; do grep -qx -- "$name" <<<"$names" || { echo "it lacks $name"; return 1; }; done
	! grep -E '=|\?' <<<"$names"
}
check "tools/packages knows Ubuntu 24.04" knows ID=ubuntu 'VERSION_ID="24.04"' libibverbs-dev clang-format-14 libmicrohttpd-dev
check "tools/packages knows Fedora" knows ID=fedora VERSION_ID=41 rdma-core-devel userspace-rcu-devel libmicrohttpd-devel libnbd

# the image: its second stage has the libraries that our programs need, and COPY finds what it names
has_libraries() (
	packages=$(sed -n '/--no-install-recommends/,/rm -rf/p' "$source/tools/container/Containerfile")
	for file in "$root$sbindir"/* "$root$prefix/bin/rblkctl" "$root$prefix"/lib/*/rblk/*.so; do
		[ -f "$file" ] || continue
		[[ $file != */rblk-rbd.so ]] || continue # the image is built without it
		for library in $(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }'); do
			path=$(ldconfig -p | awk -v l="$library" '$1 == l { print $NF; exit }')
			case $library in libc.so* | ld-linux* | libgcc_s* | lib?san* | libm.so*) continue ;; esac
			package=$(dpkg-query -S "*/$library" 2>/dev/null | sed 's/:.*//' | grep -v -- '-dev$' | head -n 1)
			[ -n "$package" ] || continue
			grep -qw -- "$package" <<<"$packages" || { echo "$file needs $package ($path)"; return 1; }
		done
	done
)
check "the container's packages have the libraries" has_libraries

# the RPM's lists, against what is installed: each file is in one package, and each line is a file
in_lists() (
	spec=$source/tools/rpm/rblk.spec installed=$(mktemp) listed=$(mktemp)
	trap 'rm -f "$installed" "$listed"' EXIT
	rpmspec --parse "$spec" >/dev/null || return
	sed -n '/^%files/,/^%changelog/p' "$spec" | grep '^%{_' | sed "s|%{_sbindir}|$sbindir|; s|%{_bindir}|$prefix/bin|; s|%{_includedir}|$prefix/include|
		s|%{_prefix}|$prefix|; s|%{_datadir}|$prefix/share|; s|%{_mandir}|$prefix/share/man|; s|\*$||" >"$listed"
	(cd "$root" && find . -type f -o -type l | sed "s|^\.||; s|^/lib/|$prefix/lib/|
		s|$prefix/lib/[a-z0-9_]*-linux-gnu[a-z0-9]*/|%{_libdir}/|; s|\(\.so\.[0-9]*\)\..*|\1|" | sort -u |
		grep -v -e /rblk-rbd.so -e /nbdkit -e /python3/) >"$installed" # which the RPM is built without
	while read -r file; do
		grep -qE "^$file(/|\$)" "$installed" || { echo "$file is listed, and not installed"; return 1; }
	done <"$listed"
	while read -r file; do
		n=0
		while read -r entry; do case $file in "$entry" | "$entry"/*) n=$((n + 1)) ;; esac; done <"$listed"
		[ $n = 1 ] || { echo "$file is in $n lists"; return 1; }
	done <"$installed"
)
if command -v rpmspec >/dev/null; then
	check "the RPM lists what is installed" in_lists
else
	skip "the RPM lists what is installed" "rpmspec is not installed"
fi

# The maintainer script at an upgrade of a service that runs: with each answer of rblkctl, what it does to the service
# and says. It fails never.
upgrades() (
	said=$1 code=$2 wanted_done=$3 wanted_said=$4 stubs=$root/stubs
	mkdir -p "$stubs"
	printf '#!/bin/sh\n[ "$1" = upgrade ] || exit 9\necho "%s"\nexit %s\n' "$said" "$code" >"$stubs/rblkctl"
	printf '#!/bin/sh\ncase $1 in show) echo 1 ;; esac\n' >"$stubs/systemctl"
	printf '#!/bin/sh\necho "$@" >>%s/done\n' "$stubs" >"$stubs/deb-systemd-invoke"
	chmod +x "$stubs"/*
	: >"$stubs/done"
	sed "s|/usr/sbin/policy-rc.d|$stubs/policy|" "$source/debian/rblk-target.postinst" >"$stubs/postinst"
	PATH=$stubs:$PATH sh "$stubs/postinst" configure 0.0.1 >"$stubs/said" 2>&1 &&
		[ "$(<"$stubs/done")" = "$wanted_done" ] && grep -q "$wanted_said" "$stubs/said" ||
		! cat "$stubs/said" "$stubs/done"
)
check "at an upgrade another rblkd takes over" upgrades "upgraded: it" 0 "" "upgraded: it"
check "  the old one goes on if it does not" upgrades "rblkctl upgrade: the new rblkd has ended" 1 "" "rblkd goes on"
check "  only one that knows no upgrade is restarted" upgrades "rblkctl: unknown method 'upgrade'" 1 \
	"restart rblkd.service" "is restarted"
printf '#!/bin/sh\nexit 101\n' >"$root/stubs/policy" && chmod +x "$root/stubs/policy"
check "  policy-rc.d is asked" upgrades "upgraded: it" 0 "" "policy-rc.d forbids"

# The same of the RPM, whose scriptlet runs when the older package is gone.
rpm_upgrades() (
	said=$1 code=$2 wanted_done=$3 wanted_said=$4 stubs=$root/stubs
	mkdir -p "$stubs"
	printf '#!/bin/sh\n[ "$1" = upgrade ] || exit 9\necho "%s"\nexit %s\n' "$said" "$code" >"$stubs/rblkctl"
	printf '#!/bin/sh\ncase $1 in show) echo 1 ;; -q) ;; *) echo "$@" >>%s/done ;; esac\n' "$stubs" >"$stubs/systemctl"
	chmod +x "$stubs"/*
	: >"$stubs/done"
	rpmspec -q --qf '[%{NAME}|%{POSTTRANS}\n]' "$source/tools/rpm/rblk.spec" |
		sed -n '/^rblk-target|/,/^:$/p' | sed 's/^rblk-target|//' >"$stubs/posttrans" &&
		PATH=$stubs:$PATH sh -e "$stubs/posttrans" >"$stubs/said" 2>&1 &&
		[ "$(<"$stubs/done")" = "$wanted_done" ] && grep -q "$wanted_said" "$stubs/said" ||
		! cat "$stubs/said" "$stubs/done"
)
if command -v rpmspec >/dev/null; then
	check "at an upgrade of the RPM another rblkd takes over" rpm_upgrades "upgraded: it" 0 "" "upgraded: it"
	check "  the old one goes on if it does not" rpm_upgrades "rblkctl upgrade: the new rblkd has ended" 1 "" "rblkd goes on"
	check "  only one that knows no upgrade is restarted" rpm_upgrades "rblkctl: unknown method 'upgrade'" 1 \
		"restart rblkd.service" "is restarted"
else
	skip "an upgrade of the RPM" "rpmspec is not installed"
fi

if ! command -v systemd-analyze >/dev/null; then
	skip "the units" "systemd-analyze is not installed"
	done_testing
fi

# as on a machine where they are installed: the programs are at the paths in the units
units=$system/systemd/system
sed -i "s|=$sbindir/|=$root$sbindir/|;s|=$prefix/bin/|=$root$prefix/bin/|" "$units"/rblk*.service
verify() {
	local said
	said=$(SYSTEMD_UNIT_PATH=$units: systemd-analyze verify --man=no "$1" 2>&1) && [ -z "$said" ] ||
		! echo "$said"
}
check "rblkd.service verifies" verify rblkd.service
check "rblk-volume@.service verifies" verify rblk-volume@test.service

# The units read `auto` by their environment: without a device they wait for one, and do not serve through the
# provider. A device or provider that their settings name is there: nothing hides it (a machine boots with this in
# tests/vm/t/boot-without-adapter.sh).
waits_for_a_device() (
	environment=$(sed -n 's/^Environment=//p' "$units/$1")
	shift
	said=$(env $environment RBLK_RUN_DIR="$root/run" timeout 60 "$@" 2>&1)
	[ $? = 4 ] && grep -q 'there is no RDMA device$' <<<"$said" || ! echo "$said"
)
has_provider() { ! grep -E '^(InaccessiblePaths|TemporaryFileSystem|PrivateNetwork)=' "$units/$1"; }
if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	check "rblkd.service: auto is a device" waits_for_a_device rblkd.service "$root$sbindir/rblkd" \
		--config "$root$prefix/share/doc/rblk/examples/ram.yaml"
	check "rblk-volume@.service: auto is a device" waits_for_a_device rblk-volume@.service "$root$sbindir/rblk" serve \
		--name test --frontend socket nqn.2026-01.org.example:demo@127.0.0.1
else
	skip "auto is a device" "this machine has one"
fi
check "rblkd.service: the provider is there" has_provider rblkd.service
check "rblk-volume@.service: the provider is there" has_provider rblk-volume@.service
check "rblkd.service: soft-roce may use UDP" grep -q '^RestrictAddressFamilies=.*AF_INET' "$units/rblkd.service"

# exposure UNIT MOST: in tenths, as `systemd-analyze security` counts
exposure() { systemd-analyze security --offline=true --no-pager --threshold="$2" "$units/$1"; }
check "rblkd.service: exposure of at most 2.0" exposure rblkd.service 20
# it must be root with CAP_SYS_ADMIN, which alone counts 0.7
check "rblk-volume@.service: exposure of at most 2.0" exposure rblk-volume@.service 20

if [ "$(id -u)" = 0 ] && [ -z "${FAKEROOTKEY:-}" ]; then
	mkdir -p "$root/etc" "$root/run"
	check "systemd-sysusers makes the user" systemd-sysusers --root="$root" rblk-target.conf
	check "systemd-tmpfiles makes the directories" systemd-tmpfiles --root="$root" --create \
		rblk-target.conf
	is "/run/rblk is root's, sticky, for rblk to write" \
		"$(stat -c '%a %u' "$root/run/rblk")" "1775 0"
else
	skip "the user and the directories" "needs root"
fi
done_testing
