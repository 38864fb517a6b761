# tools/quickstart --ceph: a small Ceph cluster, an image of it behind rblkd, and what a host sees when
# that gateway is killed. tools/quickstart reads this file, and these functions use its own.
# shellcheck shell=bash disable=SC2154

ceph_conf=$work/ceph/ceph.conf image=rbd/quickstart
second_port=$((port + 1)) second_socket=$work/run/second.sock

start_cluster() {
	[ -e "$bin/target/rblk-rbd.so" ] ||
		fail "$bin has no rblk-rbd.so: it was built without librbd (tools/packages ceph)"
	step "starting a Ceph cluster: a monitor, two OSDs in memory"
	setsid /usr/bin/python3 tools/ceph/mini_cluster.py "$work/ceph" --osds 2 \
		>"$work/cluster.log" 2>&1 &
	cluster_pid=$!
	until grep -qs CEPH_CONF "$work/cluster.log"; do
		is_alive "$cluster_pid" || fail "no cluster: $(tail -1 "$work/cluster.log")"
		sleep 0.1
	done
	rbd -c "$ceph_conf" create --size "${image_mib}M" "$image" >"$work/ceph.log" 2>&1 ||
		fail "rbd create: $(tail -1 "$work/ceph.log")"
}

# As Ceph's own programs show it: the OSDs, and the image with its lock.
show_cluster() {
	end_steps
	ceph -c "$ceph_conf" osd tree 2>"$work/ceph.log" || fail "ceph: $(tail -1 "$work/ceph.log")"
	say
	rbd -c "$ceph_conf" ls -l 2>"$work/ceph.log" || fail "rbd: $(tail -1 "$work/ceph.log")"
	say
}

# write_gateway FIRST_ID: which gateway has the image is known by the image's lock
write_gateway() {
	cat >"$work/target.yaml" <<-YAML
	version: 1
	control_socket: $socket
	controller_ids: {min: $1, max: $(($1 + 999))}
	portals:
	  - {name: local, address: 127.0.0.1, port: $port}
	subsystems:
	  - nqn: $nqn
	    allow_any_host: true
	    ana_groups: [{id: 1, owner: lock}]
	    namespaces:
	      - {nsid: 1, rbd: $image, ceph_conf: $ceph_conf}
	YAML
}

# Returns when the gateway at $socket is the owner of the image.
wait_for_owner() {
	for _ in $(seq 300); do
		"$bin/tools/rblkctl/rblkctl" group list --socket "$socket" -o json 2>/dev/null |
			grep -q '"state": *"owner"' && return
		sleep 0.1
	done
	fail "no gateway is the owner of $image after 30 s"
}

start_gateways() {
	local first_socket=$socket first_port=$port

	step "starting rblkd"
	write_gateway 1
	start_target
	wait_for_owner
	other_pid=$target_pid
	step "starting a second gateway, which stands by"
	socket=$second_socket port=$second_port
	write_gateway 1001
	start_target
	read -r target_pid other_pid <<<"$other_pid $target_pid"
	socket=$first_socket port=$first_port
}

# How many writes of hosts this gateway has served.
n_writes() {
	"$bin/tools/rblkctl/rblkctl" list namespaces --socket "$socket" -o json |
		sed -n 's/.*"writes": *\([0-9]*\).*/\1/p'
}

# Returns when writes are under way; fio goes on.
verify_in_background() {
	local n_before

	n_before=$(n_writes)
	# shellcheck disable=SC2046
	fio --name=killed $(engine) --size="${load_mib}M" --rw=randwrite --bs=4k --iodepth=16 \
		--verify=crc32c --verify_backlog=256 --verify_fatal=1 --verify_state_save=0 \
		--output-format=json --output="$work/killed.json" >/dev/null 2>"$work/fio.log" &
	fio_pid=$!
	until [ "$(n_writes)" -gt $((n_before + 256)) ]; do
		is_alive "$fio_pid" || fail "fio ended early: $(tail -3 "$work/fio.log")"
		is_alive "$target_pid" || fail "rblkd has ended"
		sleep 0.05
	done
}

# The second gateway fences the first one in the cluster, and has the image's lock next.
kill_gateway() {
	step "fio on ceph: writing, verifying; kill -9 of its gateway"
	verify_in_background
	is_alive "$fio_pid" || fail "fio was through before its gateway could be killed"
	kill -9 "$target_pid"
	{ wait "$target_pid" || true; } 2>/dev/null # where bash reports the death
	socket=$second_socket port=$second_port
	wait_for_owner
	step "fio on ceph: writing, verifying, by the second gateway"
	wait "$fio_pid" || fail "fio, when its gateway was killed: $(tail -3 "$work/fio.log")"
	fio_pid=
	[ "$(n_writes)" -gt 0 ] || fail "the second gateway has had no write"
}

# The cluster's own program against what comes through rblk.
compare_with_cluster() {
	step "reading the image with rbd and through rblk, comparing"
	rbd -c "$ceph_conf" export --no-progress "$image" "$work/export.img" >"$work/ceph.log" 2>&1 ||
		fail "rbd export: $(tail -1 "$work/ceph.log")"
	nbdcopy "$where" "$work/copy.img" || fail "nbdcopy failed"
	cmp "$work/export.img" "$work/copy.img" || fail "rbd reads something else than rblk"
}

demonstrate_ceph() {
	local seconds n_blocks

	start_cluster
	start_gateways
	show_cluster
	discover
	attach 1 ceph --path "127.0.0.1:$second_port"
	load ceph 0
	kill_gateway
	compare_with_cluster
	show_table
	read -r seconds n_blocks < <(/usr/bin/python3 tools/quickstart-table --longest "$work/killed.json")
	say "gateway: killed with -9 under fio, and a second one took the image over"
	say "  I/O stood still for $seconds s, then went on; $n_blocks blocks verified, no error"
	say "  (of a gateway on another machine it first waits for the lease, 5 s)"
	say "image: the same by rbd and by rblk; all of it in $SECONDS s"
}
