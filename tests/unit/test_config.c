/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * target.yaml: the values read, every error message with its line, and the snapshot built from it.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/conf_read.h"
#include "target/config/store.h"
#include "target/export/ana.h"
#include "base/spin.h"
#include "target/config/config.h"
#include "target/export/snapshot.h"
#include "target/store/backends.h"
#include "target/store/rbd_config.h"

static char directory[] = "/tmp/test_config.XXXXXX";

/* One reading of a file, and its results. */
struct reading {
	struct target_config config;
	struct conf *conf;
	char *said; /* all messages */
	int error;
};

static void make_file(const char *name, uint64_t size)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
}

static struct reading read_config(const char *text)
{
	struct reading r = {0};
	size_t n;
	FILE *out = open_memstream(&r.said, &n), *file = fopen("t.yaml", "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	chmod("t.yaml", 0644);
	r.error = config_read("t.yaml", &r.config, out, &r.conf);
	fclose(out);
	return r;
}

/* Builds what rblkd exports at its start, without a state directory. */
static struct snapshot *build(struct reading *r)
{
	struct snapshot_runtime runtime;

	snapshot_runtime_init(&runtime);
	return snapshot_build(&r->config, &runtime, r->conf, NULL);
}

static void release(struct reading *r)
{
	conf_free(r->conf);
	config_release(&r->config);
	free(r->said);
}

static void must_say(const struct reading *r, const char *text)
{
	if (!strstr(r->said, text))
		fail_msg("'%s' is not in:\n%s", text, r->said);
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* The text has exactly one error, and this is its message. */
static void must_refuse(const char *text, const char *says)
{
	struct reading r = read_config(text);

	assert_int_equal(r.error, -EINVAL);
	must_say(&r, says);
	if (count(r.said, ": error: ") != 1)
		fail_msg("not one message:\n%s", r.said);
	release(&r);
}

#define HEAD "version: 1\nportals: [{name: p, address: 127.0.0.1}]\n"
#define SUB  HEAD "subsystems:\n- nqn: nqn.2026-01.org.example:a\n  allow_any_host: true\n"
#define NS   SUB "  namespaces:\n"

/* ---- reading -------------------------------------------------------------------------------- */

static void smallest_has_defaults(void **state)
{
	struct reading r = read_config(HEAD);
	const struct config_portal *portal = r.config.portals.items;

	assert_string_equal(r.said, "");
	assert_int_equal(r.error, 0);
	assert_int_equal(r.config.log_level, LOG_INFO);
	assert_string_equal(r.config.fabric, "auto");
	assert_null(r.config.control_socket); /* the default is chosen at the start */
	assert_int_equal(r.config.tuning.workers, 0);
	assert_int_equal(r.config.tuning.spin, SPIN_AUTO);
	assert_int_equal(r.config.tuning.queue_depth, 128);
	assert_int_equal(r.config.tuning.inline_data, 4096);
	assert_int_equal(r.config.tuning.max_transfer, 1 << 20);
	assert_int_equal(r.config.tuning.buffers, 64 << 20);
	assert_int_equal(r.config.tuning.shared_receives, 8192);
	assert_int_equal(r.config.tuning.io_queues, 64);
	assert_int_equal(r.config.limits.connections, 1024);
	/* 64 volumes of one host, with five I/O queues each */
	assert_int_equal(r.config.limits.connections_per_host, 512);
	assert_int_equal(r.config.limits.controllers_per_host, 128);
	assert_int_equal(r.config.limits.io_queues_per_host, 384);
	assert_int_equal(r.config.limits.pending, 256);
	assert_int_equal(r.config.limits.connect_timeout_ns, 5 * NSEC_PER_SEC);
	assert_int_equal(addr_port(&portal->addr), 4420);
	release(&r);
}

static void all_keys_are_read(void **state)
{
	struct reading r = read_config(
		"version: 1\n"
		"log: {level: debug}\n"
		"fabric: mlx5_0\n"
		"control_socket: /tmp/x.sock\n"
		"tuning: {workers: 2, spin: 5us, queue_depth: 256,\n"
		"  inline_data: 8KiB, max_transfer: 256KiB, buffers: 16MiB,\n"
		"  shared_receives: 512, io_queues: 8}\n"
		"limits: {connections: 10, connections_per_host: 5, pending: 3,\n"
		"  connect_timeout: 500ms}\n"
		"portals:\n"
		"- {name: left, address: 127.0.0.1, port: 5000}\n"
		"- {name: right, address: '::1'}\n"
		"hosts:\n"
		"- {name: db1, nqn: 'nqn.2014-08.org.nvmexpress:uuid:1'}\n"
		"subsystems:\n"
		"- nqn: nqn.2026-01.org.example:a\n"
		"  serial: S1\n"
		"  model: a model\n"
		"  portals: [right]\n"
		"  allow_hosts: [db1, 'nqn.2026-01.org.example:other']\n"
		"  namespaces:\n"
		"  - {nsid: 7, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10, ram: 1MiB,\n"
		"     block_size: 4096, read_only: true}\n");
	const struct config_tuning *t = &r.config.tuning;
	struct snapshot *snapshot;
	const struct subsystem *s;
	struct namespace *ns;

	assert_string_equal(r.said, "");
	assert_int_equal(r.config.log_level, LOG_DEBUG);
	assert_int_equal(t->workers, 2);
	assert_int_equal(t->spin, 5000);
	assert_int_equal(t->max_transfer, 256 << 10);
	snapshot = build(&r);
	assert_non_null(snapshot);
	s = snapshot_find(snapshot, "nqn.2026-01.org.example:a");
	assert_non_null(s);
	assert_null(snapshot_find(snapshot, "nqn.2026-01.org.example:b"));
	assert_string_equal(s->serial, "S1");
	assert_string_equal(s->model, "a model");
	assert_int_equal(s->portal_mask, 2);
	assert_true(subsystem_is_on_portal(s, 1));
	assert_false(subsystem_is_on_portal(s, 0));
	assert_true(subsystem_allows(s, "nqn.2014-08.org.nvmexpress:uuid:1"));
	assert_true(subsystem_allows(s, "nqn.2026-01.org.example:other"));
	assert_false(subsystem_allows(s, "nqn.2026-01.org.example:othe"));
	ns = subsystem_namespace(s, 7);
	assert_non_null(ns);
	assert_int_equal(ns->block_shift, 12);
	assert_int_equal(ns->n_blocks, 256);
	assert_true(ns->is_read_only);
	assert_int_equal(ns->nguid[0], 0x0b);
	assert_int_equal(ns->nguid[15], 0x10);
	assert_string_equal(ns->kind, "ram");
	assert_non_null(ns->memory);
	snapshot_free(snapshot);
	release(&r);
}

#define LASTING "0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10"

/* A RAM namespace begins empty each time, and hosts must not mistake it for the one that they
 * wrote to: without a configured uuid it gets a new one. */
static void memory_is_another_each_time(void **state)
{
	uuid_t seen[2][2], lasting;

	uuid_parse(LASTING, lasting);
	for (unsigned i = 0; i < 2; i++) {
		struct reading r = read_config(NS "  - {nsid: 1, ram: 1MiB}\n"
						  "  - {nsid: 2, ram: 1MiB, uuid: " LASTING "}\n");
		struct snapshot *snapshot = build(&r);

		for (unsigned nsid = 1; nsid <= 2; nsid++) {
			const struct namespace *ns = subsystem_namespace(&snapshot->subsystems[0],
									 nsid);

			uuid_copy(seen[i][nsid - 1], ns->uuid);
			assert_memory_equal(ns->nguid, ns->uuid, sizeof(ns->nguid));
		}
		snapshot_free(snapshot);
		release(&r);
	}
	assert_int_not_equal(uuid_compare(seen[0][0], seen[1][0]), 0);
	assert_int_equal(uuid_compare(seen[0][1], lasting), 0);
	assert_int_equal(uuid_compare(seen[1][1], lasting), 0);
}

/* It reads zeroes before and after a restart, so hosts may continue to use it. Its identity
 * derives from its name. */
static void null_is_the_same_each_time(void **state)
{
	struct reading r = read_config(NS "  - {nsid: 1, null: 1GiB}\n");
	struct snapshot *snapshot = build(&r);
	const struct namespace *ns = subsystem_namespace(&snapshot->subsystems[0], 1);
	char uuid[37];

	uuid_unparse_lower(ns->uuid, uuid);
	assert_string_equal(uuid, "706eea03-a656-58c2-91a2-1b3fc525be2f");
	assert_string_equal(ns->kind, "null");
	assert_int_equal(ns->n_blocks, (1 << 30) / 512);
	assert_null(ns->path);
	snapshot_free(snapshot);
	release(&r);
	must_refuse(NS "  - {nsid: 1, null: 6KiB, block_size: 4096}\n",
		    "null: 6144 bytes is not a multiple of block_size 4096");
	must_refuse(NS "  - {nsid: 1, null: 1MiB, size: 1MiB}\n",
		    "size is for file only; null is its size already");
}

/* Hosts identify their namespaces by these: they must never change. */
static void identities_are_stable(void **state)
{
	struct snapshot *snapshot;
	const struct subsystem *s;
	struct reading r;
	char text[512], uuid[37];

	snprintf(text, sizeof(text),
		 NS "  - {nsid: 3, file: %s/three, size: 4KiB, create: true}\n"
		    "  - {nsid: 1, file: %s/one, size: 4KiB, create: true}\n",
		 directory, directory);
	r = read_config(text);
	snapshot = build(&r);
	s = &snapshot->subsystems[0];
	assert_string_equal(s->serial, "a11bf16bbab75d7183a8");
	uuid_unparse_lower(subsystem_namespace(s, 1)->uuid, uuid);
	assert_string_equal(uuid, "706eea03-a656-58c2-91a2-1b3fc525be2f");
	uuid_unparse_lower(subsystem_namespace(s, 3)->uuid, uuid);
	assert_string_equal(uuid, "be247f83-cfc5-5618-9c1f-1655eed1a0a9");
	assert_int_equal(subsystem_next_namespace(s, 0)->nsid, 1);
	assert_int_equal(subsystem_next_namespace(s, 1)->nsid, 3);
	assert_null(subsystem_next_namespace(s, 3));
	assert_null(subsystem_namespace(s, 2));
	snapshot_free(snapshot);
	release(&r);
}

/* A11: the rate would hold one single command longer than hosts wait. */
static void a_rate_that_holds_too_long_is_a_warning(void **state)
{
	struct reading r = read_config(
		HEAD "subsystems:\n"
		     "- nqn: nqn.2026-01.org.example:a\n"
		     "  allow_any_host: true\n"
		     "  namespaces:\n"
		     "  - {nsid: 1, ram: 1MiB, qos: {write_bandwidth: 64KiB}}\n"
		     "  - {nsid: 2, ram: 1MiB, qos: {read_bandwidth: 1MiB, iops: 1}}\n");

	assert_int_equal(r.error, 0);
	must_say(&r, "warning: qos: at 64KiB a second a command of 1MiB (max_transfer) takes 16 s");
	assert_null(strstr(r.said, "at 1MiB a second"));
	release(&r);
}

static void nobody_allowed_is_a_warning(void **state)
{
	struct reading r = read_config(HEAD "subsystems:\n"
					    "- nqn: nqn.2026-01.org.example:a\n");

	assert_int_equal(r.error, 0);
	must_say(&r, "t.yaml:4:3: warning: no host can attach to this subsystem");
	release(&r);
}

/* ---- mistakes ------------------------------------------------------------------------------- */

static void mistakes_across_keys(void **state)
{
	must_refuse(
		HEAD "subsystem: []\n",
		"t.yaml:3:1: error: unknown key 'subsystem' in configuration (did you mean 'subsystems'?)");
	must_refuse("version: 2\nportals: [{name: p, address: 127.0.0.1}]\n",
		    "t.yaml:1:10: error: version must be 1");
	must_refuse("version: 1\n", "lacks the required key 'portals'");
	must_refuse("version: 1\nportals: [{name: p, address: 127.0.0.1},\n"
		    "  {name: p, address: 127.0.0.2}]\n",
		    "t.yaml:3:3: error: portal 'p' is there already, on line 2");
	must_refuse("version: 1\nportals: [{name: p, address: 127.0.0.1},\n"
		    "  {name: q, address: 127.0.0.1}]\n",
		    "portal 'p' on line 2 listens on 127.0.0.1:4420 already");
	must_refuse("version: 1\nportals: [{name: p, address: 127.0.0.1},\n"
		    "  {name: q, address: 0.0.0.0}]\n",
		    "overlap");
	must_refuse("version: 1\nportals: [{name: p, address: 127.0.0.256}]\n",
		    "address must be an IPv4 or IPv6 address");
	must_refuse(HEAD "hosts: [{name: h, nqn: nqn.2026-01.org.example:1},\n"
			 " {name: h, nqn: nqn.2026-01.org.example:2}]\n",
		    "t.yaml:4:2: error: host 'h' is there already, on line 3");
	must_refuse(HEAD "hosts: [{name: h, nqn: nqn.2026-01.org.example:1},\n"
			 " {name: i, nqn: nqn.2026-01.org.example:1}]\n",
		    "host 'h' on line 3 has this NQN already");
	must_refuse(HEAD "hosts: [{name: h, nqn: nqn.2026-01.org.example:1,\n"
			 "  hostid: 6f1b3a52-7f0e-4c4e-9d0c-0a4d5e6f7a8b},\n"
			 " {name: i, nqn: nqn.2026-01.org.example:2,\n"
			 "  hostid: 6F1B3A52-7F0E-4C4E-9D0C-0A4D5E6F7A8B}]\n",
		    "t.yaml:6:11: error: host 'h' on line 3 has this identifier already");
	must_refuse(HEAD "hosts: [{name: h, nqn: nqn.2026-01.org.example:1, hostid: 1}]\n",
		    "hostid must be a UUID");
	must_refuse(HEAD "hosts: [{name: h, nqn: nqn.2026-01.org.example:1,\n"
			 "  hostid: 00000000-0000-0000-0000-000000000000}]\n",
		    "hostid must not be all zeroes");
	must_refuse(HEAD "hosts: [{name: h, nqn: bad}]\n", "nqn does not begin with");
	must_refuse(
		SUB "- nqn: nqn.2026-01.org.example:a\n  allow_any_host: true\n",
		"t.yaml:6:8: error: subsystem 'nqn.2026-01.org.example:a' is there already, on line 4");
	must_refuse(SUB "  portals: [q]\n", "t.yaml:6:13: error: there is no portal 'q'");
	must_refuse(SUB "  portals: [p, p]\n", "'p' is in this list twice");
	must_refuse(SUB "  serial: '123456789012345678901'\n", "at most 20 characters");
	must_refuse(SUB "  serial: \"\xc3\xa4\"\n", "serial must be printable ASCII");
	must_refuse(HEAD "hosts: [{name: db1, nqn: nqn.2026-01.org.example:1}]\n"
			 "subsystems:\n- nqn: nqn.2026-01.org.example:a\n"
			 "  allow_hosts: [bd1]\n",
		    "there is no host 'bd1' (did you mean 'db1'?)");
	must_refuse(SUB "  allow_hosts: [nqn.2026-01.org.example:1]\n",
		    "t.yaml:5:19: error: allow_any_host makes allow_hosts meaningless");
	must_refuse(HEAD "tuning: {workers: 9}\n", "workers must be auto, or a number");
	must_refuse(HEAD "tuning: {max_transfer: 96KiB}\n", "must be a power of 2");
	must_refuse(HEAD "tuning: {workers: 4, buffers: 4MiB}\n",
		    "buffers must be at least 8MiB: two of max_transfer (1MiB)");
	must_refuse(HEAD "control_socket: rblkd.sock\n", "must be an absolute path");
}

/* Here there is no plug-in: that is one error more, or the only one. */
static void where_state_is_kept(void **state)
{
	static const struct {
		const char *keys;
		unsigned is;
		const char *says;
	} rows[] = {
		{"", RBD_STATE_POOL, NULL},
		{", ceph_state: pool", RBD_STATE_POOL, NULL},
		{", ceph_state: directory", RBD_STATE_DIRECTORY, NULL},
		{", ceph_state: disk", 0, "must be one of pool, directory, not 'disk'"},
		{", ceph_state: Pool", 0, "must be one of pool, directory, not 'Pool'"},
		{", ceph_state: ''", 0, "must be one of pool, directory, not ''"},
		{", ceph_state: [pool]", 0, ""},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		const struct config_subsystem *subsystem;
		struct backend_config how;
		struct conf_mark mark;
		struct reading r;
		char text[512];

		snprintf(text, sizeof(text), NS "  - {nsid: 1, rbd: p/i%s}\n", rows[i].keys);
		r = read_config(text);
		must_say(&r, "error: rbd: there is no /nowhere/rblk-rbd.so");
		assert_int_equal(count(r.said, ": error: "), rows[i].says ? 2 : 1);
		assert_int_equal(count(r.said, "t.yaml:7:37: error: ceph_state "), !!rows[i].says);
		must_say(&r, rows[i].says ? rows[i].says : "");
		subsystem = r.config.subsystems.items;
		assert_ptr_equal(config_backend(subsystem->namespaces.items, &how, &mark),
				 &backend_rbd);
		if (!rows[i].says)
			assert_int_equal(rbd_config(&how)->state, rows[i].is);
		release(&r);
	}
}

static void mistakes_in_namespaces(void **state)
{
	char text[512];

	must_refuse(NS "  - {nsid: 0, ram: 1MiB}\n", "nsid must be");
	must_refuse(NS "  - {nsid: 1025, ram: 1MiB}\n", "nsid must be");
	must_refuse(NS "  - {nsid: 1, ram: 1MiB}\n  - {nsid: 1, ram: 1MiB}\n",
		    "t.yaml:8:12: error: nsid 1 is there already, on line 7");
	must_refuse(NS "  - {nsid: 1}\n", "namespace needs one of file, device, ram, null and rbd");
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, device: /dev/x}\n",
		    "namespace needs only one of file, device, ram, null and rbd");
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, size: 1MiB}\n", "size is for file only");
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, ceph_user: x}\n", "ceph_user is for rbd only");
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, ceph_conf: /x}\n", "ceph_conf is for rbd only");
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, ceph_state: pool}\n",
		    "t.yaml:7:38: error: ceph_state is for rbd only");
	must_refuse(NS "  - {nsid: 1, rbd: p/i}\n",
		    "t.yaml:7:20: error: rbd: there is no /nowhere/rblk-rbd.so");
	must_refuse(NS "  - {nsid: 1, file: /x, size: 1MiB}\n", "size is for a file that");
	must_refuse(NS "  - {nsid: 1, file: /x, create: true}\n", "create needs a size");
	must_refuse(NS "  - {nsid: 1, file: x}\n", "file must be an absolute path");
	must_refuse(NS "  - {nsid: 1, file: /x, create: true, size: 5000}\n",
		    "size: 5000 bytes is not a multiple of block_size 512");
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, block_size: 1024}\n",
		    "block_size must be 512 or 4096");
	must_refuse(NS "  - {nsid: 1, ram: 5120, block_size: 4096}\n",
		    "t.yaml:7:20: error: ram: 5120 bytes is not a multiple of block_size");
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, uuid: 12}\n", "uuid must be a UUID");
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10}\n"
		       "  - {nsid: 2, ram: 1MiB, uuid: 0b1e6c5e-5a55-4c0e-9b0c-2f6f4b5d1a10}\n",
		    "the namespace on line 7 has this UUID already");
	snprintf(text, sizeof(text), NS "  - {nsid: 1, file: %s/none}\n", directory);
	must_refuse(text, "t.yaml:7:21: error: /tmp/test_config.");
	must_refuse(text, "/none: no such file (create: true with a size makes it)");
	make_file("odd", 4096 + 512);
	snprintf(text, sizeof(text), NS "  - {nsid: 1, file: %s/odd, block_size: 4096}\n",
		 directory);
	must_refuse(text, "/odd: 4608 bytes is not a multiple of block_size 4096");
}

/* ---- ANA ------------------------------------------------------------------------------------ */

#define TWO                                                                                        \
	"version: 1\nportals: [{name: p, address: 127.0.0.1},\n"                                   \
	"  {name: q, address: 127.0.0.2}]\n"                                                       \
	"subsystems:\n- nqn: nqn.2026-01.org.example:a\n  allow_any_host: true\n"
#define PLAIN "  namespaces: [{nsid: 1, ram: 1MiB}]\n"

static void ana_groups(void **state)
{
	struct reading r = read_config(
		TWO
		"  ana_groups:\n  - {id: 7, state: non_optimized, portals: [{portal: q, state: persistent_loss}]}\n  - {id: 1}\n"
		"  namespaces:\n  - {nsid: 1, ram: 1MiB}\n"
		"  - {nsid: 9, ram: 1MiB, ana_group: 7}\n");
	const struct config_subsystem *subsystem = r.config.subsystems.items;
	struct snapshot *snapshot;
	const struct ana *ana;

	assert_string_equal(r.said, "");
	snapshot = build(&r);
	assert_non_null(snapshot);
	ana = atomic_load(&snapshot->subsystems[0].ana);
	assert_int_equal(subsystem->ana_groups.n, 2);
	assert_int_equal(ana->n_groups, 2);
	assert_int_equal(ana->groups[0].id, 1); /* by id */
	assert_int_equal(ana_group_of(ana, 1)->id, 1);
	assert_int_equal(ana_group_of(ana, 9)->id, 7);
	assert_null(ana_group_of(ana, 2));
	assert_null(ana_group_of(ana, UINT32_MAX));
	assert_int_equal(ana_check(ana, 1, 1), NVME_OK);
	assert_int_equal(ana_check(ana, 9, 0), NVME_OK);
	assert_int_equal(ana_check(ana, 9, 1), NVME_ANA_PERSISTENT_LOSS);
	snapshot_free(snapshot);
	release(&r);
	r = read_config(TWO PLAIN);
	snapshot = build(&r);
	assert_non_null(snapshot);
	assert_null(atomic_load(&snapshot->subsystems[0].ana));
	snapshot_free(snapshot);
	release(&r);
}

static void identities_can_be_chosen(void **state)
{
	static const uint8_t nguid[] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0,
					0x0f, 0xed, 0xcb, 0xa9, 0x87, 0x65, 0x43, 0x21};
	static const uint8_t eui64[] = {0x02, 0, 0, 0, 0, 0, 0, 0xff};
	struct reading r = read_config(
		NS "  - {nsid: 1, ram: 1MiB, nguid: '123456789abcdef00FEDCBA987654321',\n"
		   "     eui64: '02000000000000ff'}\n  - {nsid: 2, ram: 1MiB}\n");
	struct snapshot *snapshot = build(&r);
	struct namespace *const *namespaces;

	assert_non_null(snapshot);
	namespaces = snapshot->subsystems[0].namespaces;
	assert_memory_equal(namespaces[0]->nguid, nguid, sizeof(nguid));
	assert_memory_equal(namespaces[0]->eui64, eui64, sizeof(eui64));
	assert_memory_equal(namespaces[1]->nguid, namespaces[1]->uuid, sizeof(nguid));
	snapshot_free(snapshot);
	release(&r);
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, nguid: '12'}\n",
		    "nguid must be 32 hexadecimal digits");
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, eui64: '0000000000000000'}\n",
		    "eui64 must be 16 hexadecimal digits, not all zero");
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, eui64: 02000000000000ff}\n"
		       "  - {nsid: 2, ram: 1MiB, eui64: 02000000000000FF}\n",
		    "t.yaml:8:33: error: the namespace on line 7 has this EUI-64 already");
}

/* The file "s" with these keys, opened; NULL when opening fails. */
static struct snapshot *export_file(struct reading *r, const char *keys)
{
	struct snapshot *snapshot;
	char text[512];
	size_t n;
	FILE *out;

	snprintf(text, sizeof(text), NS "  - {nsid: 1, file: %s/s%s}\n", directory, keys);
	*r = read_config(text);
	assert_int_equal(r->error, 0);
	release(r);
	*r = (struct reading){0};
	out = open_memstream(&r->said, &n); /* open while the snapshot is built, too */
	assert_int_equal(config_read("t.yaml", &r->config, out, &r->conf), 0);
	snapshot = build(r);
	fclose(out);
	return snapshot;
}

/* Namespaces with shared: true may open one file together. One without it opens its file alone. */
static void files_can_be_shared(void **state)
{
	struct reading first, second, third;
	struct snapshot *one, *other;

	make_file("s", 1 << 20);
	one = export_file(&first, ", shared: true");
	assert_non_null(one);
	other = export_file(&second, ", shared: true");
	assert_non_null(other);
	assert_null(export_file(&third, ""));
	must_say(&third, "is in use: exported already");
	release(&third);
	snapshot_free(one);
	snapshot_free(other);
	release(&first);
	release(&second);
	one = export_file(&first, "");
	assert_non_null(one);
	assert_null(export_file(&second, ", shared: true"));
	must_say(&second, "is in use: exported already");
	snapshot_free(one);
	release(&first);
	release(&second);
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, shared: true}\n",
		    "shared is for file and rbd only");
}

/* Caches of files as hosts see them; memory takes no such key. */
static void caches(void **state)
{
	static const struct {
		const char *keys;
		bool has_cache, is_write_through;
	} cases[] = {
		{"", true, false},
		{", cache: auto", true, false},
		{", cache: write-back", true, false},
		{", cache: write-through", false, true},
	};

	make_file("s", 1 << 20);
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		struct reading r;
		struct snapshot *snapshot = export_file(&r, cases[i].keys);
		const struct namespace *ns;
		bool is_kept;

		assert_non_null(snapshot);
		ns = snapshot->subsystems[0].namespaces[0];
		is_kept = ns->backend->limits.has_volatile_cache; /* no file on tmpfs is */
		assert_int_equal(ns->has_cache, is_kept && cases[i].has_cache);
		assert_int_equal(ns->is_write_through, is_kept && cases[i].is_write_through);
		snapshot_free(snapshot);
		release(&r);
	}
	must_refuse(NS "  - {nsid: 1, ram: 1MiB, cache: write-through}\n",
		    "cache is for stores that keep data: nothing makes ram durable");
	must_refuse(NS "  - {nsid: 1, null: 1MiB, cache: auto}\n", "nothing makes null durable");
}

static void mistakes_in_ana_groups(void **state)
{
	must_refuse(TWO "  ana_groups: [{id: 0}]\n", "id must be");
	must_refuse(TWO "  ana_groups: [{id: 65}]\n", "id must be");
	must_refuse(TWO "  ana_groups: [{state: optimized}]\n",
		    "ANA group lacks the required key 'id'");
	must_refuse(TWO "  ana_groups: [{id: 1, state: optimised}]\n", "state must be");
	must_refuse(TWO "  ana_groups: [{id: 2}, {id: 2}]\n",
		    "t.yaml:7:25: error: ANA group 2 is there already, on line 7");
	must_refuse(
		TWO "  ana_groups: [{id: 2}]\n" PLAIN,
		"t.yaml:8:16: error: there is no ANA group 1 in this subsystem: name one with ana_group");
	must_refuse(TWO "  ana_groups: [{id: 2}]\n"
			"  namespaces: [{nsid: 1, ram: 1MiB, ana_group: 3}]\n",
		    "there is no ANA group 3 in this subsystem");
	must_refuse(TWO "  namespaces: [{nsid: 1, ram: 1MiB, ana_group: 1}]\n",
		    "ana_group needs ana_groups in the subsystem");
	must_refuse(TWO "  ana_groups: [{id: 1, portals: [{portal: x, state: change}]}]\n",
		    "there is no portal 'x'");
	must_refuse(TWO "  ana_groups: [{id: 1, portals: [{portal: p}]}]\n",
		    "lacks the required key 'state'");
	must_refuse(TWO "  ana_groups: [{id: 1, portals: [{portal: p, state: change},\n"
			"    {portal: p, state: optimized}]}]\n",
		    "t.yaml:8:5: error: portal 'p' is in this list twice");
	must_refuse(TWO "  portals: [p]\n"
			"  ana_groups: [{id: 1, portals: [{portal: q, state: change}]}]\n",
		    "the subsystem is not on portal 'q'");
}

static void exported_twice(void **state)
{
	char text[1024];
	struct reading r;
	struct snapshot *snapshot;

	make_file("a", 4096);
	unlink("b");
	assert_int_equal(link("a", "b"), 0);
	snprintf(text, sizeof(text), NS "  - {nsid: 1, file: %s/a}\n  - {nsid: 2, file: %s/b}\n",
		 directory, directory);
	must_refuse(text, "/b is exported already, as nsid 1 on line 7");
	snprintf(text, sizeof(text),
		 NS "  - {nsid: 1, file: %s/new, create: true, size: 4KiB}\n"
		    "  - {nsid: 2, file: %s/new, create: true, size: 4KiB}\n",
		 directory, directory);
	must_refuse(text, "/new is exported already, as nsid 1 on line 7");
	snprintf(text, sizeof(text),
		 NS "  - {nsid: 1, file: %s/a, read_only: true}\n"
		    "  - {nsid: 2, file: %s/b, read_only: true}\n",
		 directory, directory);
	r = read_config(text);
	assert_int_equal(r.error, 0);
	snapshot = build(&r);
	assert_non_null(snapshot);
	snapshot_free(snapshot);
	release(&r);
}

/* Errors that only opening detects have their line, too, for every namespace. */
static void open_failures_have_lines(void **state)
{
	char text[1024];
	struct reading first, second;
	struct snapshot *snapshot;

	make_file("x", 4096);
	make_file("y", 4096);
	snprintf(text, sizeof(text), NS "  - {nsid: 1, file: %s/x}\n  - {nsid: 2, file: %s/y}\n",
		 directory, directory);
	first = read_config(text);
	snapshot = build(&first);
	assert_non_null(snapshot);
	second = read_config(text);
	assert_int_equal(second.error, 0); /* --check beside a running rblkd */
	config_release(&second.config);
	conf_free(second.conf);
	free(second.said);
	second = (struct reading){0};
	{
		size_t n;
		FILE *out = open_memstream(&second.said, &n);

		assert_int_equal(config_read("t.yaml", &second.config, out, &second.conf), 0);
		assert_null(build(&second));
		fclose(out);
	}
	must_say(&second, "t.yaml:7:21: error: ");
	must_say(&second, "t.yaml:8:21: error: ");
	assert_int_equal(count(second.said, "is in use: exported already"), 2);
	release(&second);
	snapshot_free(snapshot);
	release(&first);
}

static void file_is_safe(void **state)
{
	struct reading r = read_config(HEAD);
	struct target_config config;
	struct conf *conf = NULL;
	char *said = NULL;
	size_t n;
	FILE *out = open_memstream(&said, &n);

	release(&r);
	chmod("t.yaml", 0666);
	assert_int_equal(config_read("t.yaml", &config, out, &conf), -EINVAL);
	fflush(out);
	assert_non_null(strstr(said, "t.yaml: error: every user may write this file (mode 0666)"));
	conf_free(conf);
	config_release(&config);
	chmod("t.yaml", 0644);
	assert_int_equal(config_read("none.yaml", &config, out, &conf), -ENOENT);
	fclose(out);
	conf_free(conf);
	config_release(&config);
	free(said);
}

/* Twenty errors of twenty kinds: twenty messages in one run. */
static void twenty_mistakes(void **state)
{
	static const char text[] = "version: 3\n"	    /* 1 */
				   "log: {level: chatty}\n" /* 2 */
				   "tuning:\n"
				   "  workers: many\n"	  /* 3 */
				   "  io_queues: some\n"  /* 4 */
				   "  queue_deptth: 64\n" /* 5 */
				   "  spin: 5 parsecs\n"  /* 6 */
				   "portals:\n"
				   "- {name: left, address: 127.0.0.1}\n"
				   "- {name: left, address: 127.0.0.1, port: 70000}\n" /* 7, 8 */
				   "hosts:\n"
				   "- {name: db1, nqn: iqn.1}\n" /* 9 */
				   "subsystems:\n"
				   "- nqn: nqn.2026-01.org.example:a\n"
				   "  serial: '0123456789012345678901234'\n" /* 10 */
				   "  portals: [lfet]\n"		     /* 11 */
				   "  allow_hosts: [db2]\n"		     /* 12 */
				   "  namespaces:\n"
				   "  - {nsid: 1, ram: 1MiB}\n"
				   "  - {nsid: 1, ram: 1MiB}\n"			   /* 13 */
				   "  - {nsid: 2000, ram: 1MiB}\n"		   /* 14 */
				   "  - {nsid: 2, file: /no/such/file}\n"	   /* 15 */
				   "  - {nsid: 3, ram: 5000}\n"			   /* 16 */
				   "  - {nsid: 4, ram: 1MiB, block_size: 520}\n"   /* 17 */
				   "  - {nsid: 5, ram: 1MiB, device: /dev/null}\n" /* 18 */
				   "  - {nsid: 6, ram: 1MiB, read_only: yes}\n"	   /* 19 */
				   "- nqn: nqn.2026-01.org.example:a\n"		   /* 20 */
				   "  allow_any_host: true\n";
	struct reading r = read_config(text);

	if (count(r.said, ": error: ") != 20)
		fail_msg("%u messages:\n%s", count(r.said, ": error: "), r.said);
	assert_int_equal(count(r.said, "t.yaml:"), 20); /* each with its line */
	release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(smallest_has_defaults),
		cmocka_unit_test(all_keys_are_read),
		cmocka_unit_test(null_is_the_same_each_time),
		cmocka_unit_test(identities_are_stable),
		cmocka_unit_test(memory_is_another_each_time),
		cmocka_unit_test(nobody_allowed_is_a_warning),
		cmocka_unit_test(a_rate_that_holds_too_long_is_a_warning),
		cmocka_unit_test(mistakes_across_keys),
		cmocka_unit_test(where_state_is_kept),
		cmocka_unit_test(mistakes_in_namespaces),
		cmocka_unit_test(ana_groups),
		cmocka_unit_test(identities_can_be_chosen),
		cmocka_unit_test(files_can_be_shared),
		cmocka_unit_test(caches),
		cmocka_unit_test(mistakes_in_ana_groups),
		cmocka_unit_test(exported_twice),
		cmocka_unit_test(open_failures_have_lines),
		cmocka_unit_test(file_is_safe),
		cmocka_unit_test(twenty_mistakes),
	};
	char command[128];
	int n_failed;

	if (setenv("RBLK_PLUGINS", "/nowhere", 1) || !mkdtemp(directory) || chdir(directory))
		return 1;
	n_failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command) || n_failed;
}
