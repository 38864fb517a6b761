/* SPDX-License-Identifier: BSD-3-Clause */
/* See fuzz_host.h. */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/conf_read.h"
#include "base/conf_report.h"
#include "base/log.h"
#include "base/ticks.h"
#include "initiator/io/auth.h"
#include "target/config/check.h"
#include "target/config/schema.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/engine/poller/poller_device.h"
#include "target/export/ana.h"
#include "target/command/admin/notice.h"
#include "target/export/guard/guard_new.h"
#include "target/engine/poller/poller.h"
#include "target/engine/poller/pollers.h"
#include "target/engine/request/request_poller.h"
#include "target/association/connection.h"
#include "target/operations/life.h"
#include "tests/fuzz/fuzz_change.h"
#include "tests/fuzz/fuzz_disk.h"
#include "tests/fuzz/fuzz_host.h"
#include "tests/fuzz/fuzz_records.h"
#include "tests/fuzz/fuzz_wire.h"

enum {
	CONNS = 8,
	QUEUE_DEPTH = 16,
	SETTLE_TURNS = 200,
	END_TURNS = 20000,
};

#define SUBNQN	   "nqn.2026-01.org.example:plain"
#define ANA_SUBNQN "nqn.2026-01.org.example:ana"
#define HOSTNQN	   "nqn.2026-01.org.example:host"
#define KEYED_HOST "nqn.2026-01.org.example:keyed"
#define KEY	   "ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"
#define OTHER_KEY  "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"

static const char config_text[] =
	"version: 1\n"
	"tuning: {workers: 1, queue_depth: 16, inline_data: 4KiB, max_transfer: 64KiB,\n"
	"  buffers: 1MiB, shared_receives: 16, io_queues: 2}\n"
	"limits: {connections: 64, connections_per_host: 5, controllers_per_host: 3,\n"
	"  io_queues_per_host: 2, connect_rate: 1000000, connect_rate_per_host: 1000000}\n"
	"controller_ids: {min: 1, max: 4}\n"
	"portals:\n"
	"  - {name: a, address: 192.0.2.1}\n"
	"  - {name: b, address: '::', port: 4421}\n"
	"  - {name: c, address: 0.0.0.0, port: 4422}\n"
	"hosts:\n"
	"  - {name: keyed, nqn: " KEYED_HOST ", dhchap_key_file: %s/key,\n"
	"     dhchap_dhgroups: [none]}\n"
	"discovery:\n"
	"  nqn: nqn.2026-01.org.example:discovery\n"
	"  referrals: [{address: 192.0.2.9}, {address: '2001:db8::1'}]\n"
	"subsystems:\n"
	"  - nqn: " SUBNQN "\n"
	"    allow_any_host: true\n"
	"    namespaces:\n"
	"      - {nsid: 1, ram: 256KiB}\n"
	"      - {nsid: 2, ram: 256KiB, eui64: 0011223344556677,\n"
	"         uuid: 6f9619ff-8b86-d011-b42d-00cf4fc964ff}\n"
	"      - {nsid: 3, ram: 256KiB, read_only: true}\n"
	"      - {nsid: 9, ram: 256KiB, block_size: 4096, qos: {iops: 100000}}\n"
	"  - nqn: " ANA_SUBNQN "\n"
	"    allow_any_host: true\n"
	"    ana_groups:\n"
	"      - {id: 1}\n"
	"      - {id: 2, state: inaccessible}\n"
	"      - {id: 3, state: persistent_loss}\n"
	"      - {id: 4, state: optimized, portals: [{portal: b, state: inaccessible}]}\n"
	"    namespaces:\n"
	"      - {nsid: 1, ram: 256KiB}\n"
	"      - {nsid: 2, ram: 256KiB, ana_group: 2}\n"
	"      - {nsid: 3, ram: 256KiB, ana_group: 3}\n"
	"  - nqn: nqn.2026-01.org.example:closed\n"
	"    portals: [b]\n"
	"    allow_hosts: [keyed]\n";

static struct {
	struct target target;
	struct poller poller;
	struct target_config config;
	struct conf *conf;
	struct queue *queues[CONNS]; /* of live connections */
	struct auth_key key;
	char directory[32];
	bool is_started;
	unsigned n_at_once; /* steps left before the next turn */
	uint8_t step;	    /* key of this step's memory */
} env = {.directory = "/tmp/fuzz_host.XXXXXX"};

/* rblkd's main.c decides in this hook whether to end; the script stops this target itself. */
static void check_stop(struct target *target)
{
}

/* ---- turns ---------------------------------------------------------------------------------- */

static bool is_loop_quiet(struct loop *loop)
{
	return list_is_empty(&loop->calls) && !atomic_load(&loop->inbox);
}

/* Work at the disk or on a worker thread, which may be idle in all our loops. */
static bool has_unfinished(void)
{
	if (env.target.n_drops)
		return true;
	list_for_each (node, &env.target.connections) {
		struct queue *queue = list_entry(node, struct connection, node)->queue;

		for (unsigned i = 0; i < queue->n_entries; i++)
			if (queue->requests[i].state == REQUEST_BACKEND ||
			    queue->requests[i].state == REQUEST_TURN)
				return true;
	}
	return false;
}

static bool is_quiet(void)
{
	return is_loop_quiet(&env.target.loop) && is_loop_quiet(&env.poller.loop) &&
	       wire_is_quiet();
}

/* Clears the entries of connections that have ended. */
static void forget_dead(void)
{
	for (unsigned i = 0; i < CONNS; i++) {
		bool is_there = false;

		list_for_each (node, &env.target.connections)
			if (list_entry(node, struct connection, node)->queue == env.queues[i])
				is_there = true;
		if (!is_there)
			env.queues[i] = NULL;
	}
}

static void turn(void)
{
	loop_turn(&env.target.loop, 0);
	loop_turn(&env.poller.loop, 0);
	wire_turn();
}

static void settle(void)
{
	unsigned n = 0;

	do {
		turn();
		/* A worker thread may hold the command. A held disk is not waited for. */
		if (is_quiet() && has_unfinished() && !disk_is_held())
			loop_turn(&env.poller.loop, NSEC_PER_MSEC);
	} while (++n < SETTLE_TURNS &&
		 (!is_quiet() || (has_unfinished() && !disk_is_held() && n < 20)));
	forget_dead();
}

/* ---- what the target is made of ------------------------------------------------------------- */

static void write_key(void)
{
	struct auth_key keys[2];
	struct error error;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/key", env.directory);
	f = fopen(path, "w");
	check(f);
	/* The host uses the second key: a file has two while the administrator replaces one. */
	fputs("DHHC-1:00:" OTHER_KEY "\nDHHC-1:00:" KEY "\n", f);
	fclose(f);
	check(chmod(path, 0600) == 0);
	check(auth_key_read_file(path, keys, 2, &error) == 2);
	env.key = keys[1];
}

static void read_config(void)
{
	char text[sizeof(config_text) + sizeof(env.directory)];
	int n = snprintf(text, sizeof(text), config_text, env.directory);

	check(conf_read_text("fuzz.yaml", text, (size_t)n, &config_schema, &env.config, stderr,
			     &env.conf) == 0);
	config_check(&env.config, "fuzz.yaml", env.conf, stderr);
	check(conf_n_errors(env.conf) == 0);
}

static void stop(void)
{
	char path[64];

	poller_deinit(&env.poller);
	conf_free(env.conf);
	config_release(&env.config);
	boot_end();
	snprintf(path, sizeof(path), "%s/key", env.directory);
	unlink(path);
	rmdir(env.directory);
}

/* Called for the first input only. */
static void start(void)
{
	log_set_level((enum log_level) - 1); /* nothing */
	check(mkdtemp(env.directory));
	write_key();
	boot_begin(env.directory);
	read_config();
	ticks_init();
	wire_start();
	env.target.config = &env.config; /* what poller_init reads */
	env.target.n_pollers = 1;
	check(poller_init(&env.poller, &env.target, 0) == 0);
	request_poller_prepare(&env.poller);
	/* atexit() handlers run in reverse: libcrypto must register its own first, so that the
	 * workers that use it end before it does. */
	check(OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL) == 1);
	atexit(stop);
	env.is_started = true;
}

/* Namespace 2 of the plain subsystem is on the scripted disk. */
static void put_disk(struct snapshot *snapshot, bool is_shared)
{
	struct namespace *ns = subsystem_namespace(snapshot_find(snapshot, SUBNQN), 2);

	ns->backend->ops->close(ns->backend);
	ns->backend = disk_open(&env.poller.loop);
	ns->memory = NULL;
	ns->has_cache = true;
	ns->guard->is_volatile = false;
	if (!is_shared)
		return;
	guard_unref(ns->guard);
	ns->guard = guard_new(ns->uuid, records_open(&env.poller.loop), false);
	check(ns->guard);
}

/* A thread registers namespaces in RAM. Wait for it: the next steps must not depend on timing. */
static void await_memory(const struct snapshot *snapshot)
{
	for (unsigned i = 0; i < snapshot->n_subsystems; i++)
		for (unsigned j = 0; j < snapshot->subsystems[i].n_namespaces; j++) {
			const struct namespace *ns = snapshot->subsystems[i].namespaces[j];

			while (ns->memory && !(atomic_load(&ns->registered) & 1))
				sched_yield();
		}
}

static void begin_target(unsigned world)
{
	const struct target_parts parts = {.config = &env.config,
					   .pollers = &env.poller,
					   .n_pollers = 1,
					   .check_stop = check_stop};
	struct target_stock stock = {.groups = disk_groups()};
	struct snapshot *snapshot;

	if (world & WORLD_STATE)
		stock.state = disk_state(!(world & WORLD_BROKEN_STATE), world & WORLD_STOPPING);
	check(target_init(&env.target, &parts) == 0);
	check(target_export(&env.target, &stock, env.conf) == 0);
	snapshot = atomic_load(&env.target.snapshot);
	put_disk(snapshot, (world & (WORLD_STATE | WORLD_BROKEN_STATE)) == WORLD_BROKEN_STATE);
	env.poller.complaints = env.poller.auth_refusals = (struct log_limit){0};
	check(target_listen(&env.target) == 0);
	/* A host has one buffer at a time, so short scripts wait for one. */
	atomic_store(&env.target.bytes_per_host, 0);
	await_memory(snapshot);
}

static void end_target(void)
{
	target_close(&env.target);
	poller_device_stop(&env.poller.devices[0]);
	poller_device_free(&env.poller.devices[0]);
	target_withdraw(&env.target);
	target_deinit(&env.target);
}

/* ---- what a host does ----------------------------------------------------------------------- */

static void after_step(void)
{
	if (env.n_at_once)
		env.n_at_once--;
	if (!env.n_at_once) {
		wire_hold(false);
		settle();
	}
}

static void open_conn(unsigned i, unsigned portal, unsigned n_reads, const uint8_t private_data[32])
{
	unsigned n = env.target.n_connections;

	if (env.queues[i])
		return;
	wire_connect(portal, n_reads, private_data, 32);
	if (env.target.n_connections > n)
		env.queues[i] =
			list_entry(env.target.connections.prev, struct connection, node)->queue;
	settle();
}

/* The host disconnects, or the device reports its loss: the target gets the same event. */
static void hang_up(unsigned i)
{
	struct queue *queue = env.queues[i];

	env.queues[i] = NULL;
	if (queue)
		queue->connection->cm->ops->on_disconnected(queue->connection->cm);
}

static void send_capsule(unsigned i, const struct nvme_sqe *sqe, const uint8_t *data, size_t n)
{
	if (env.queues[i] && env.queues[i]->qp.state == QP_LIVE)
		wire_deliver(&env.queues[i]->qp, sqe, data, n);
}

static void describe_in_capsule(struct nvme_sqe *sqe, size_t n)
{
	sqe->sgl = (struct nvme_sgl){0};
	sqe->sgl.block.length = put_le32((uint32_t)n);
	sqe->sgl.block.type = NVME_SGL_DATA_BLOCK_OFFSET;
}

static void describe_keyed(struct nvme_sqe *sqe, size_t n, unsigned key, uint8_t type)
{
	sqe->sgl.keyed.length = put_le24((uint32_t)n);
	sqe->sgl.keyed.key = put_le32(key);
	sqe->sgl.keyed.type = type;
}

/* ---- hosts that connected before ------------------------------------------------------------ */

static void open_good(unsigned i, unsigned qid)
{
	unsigned n = qid ? QUEUE_DEPTH : NVMF_ADMIN_SQ_ENTRIES;
	struct nvmf_cm_req req = {.qid = put_le16((uint16_t)qid),
				  .hrqsize = put_le16((uint16_t)n),
				  .hsqsize = put_le16((uint16_t)(n - 1))};

	open_conn(i, 0, 2, (const uint8_t *)&req);
}

static void send_connect(unsigned i, unsigned qid, const char *subnqn, uint8_t host,
			 unsigned cntlid, unsigned world)
{
	unsigned n = qid ? QUEUE_DEPTH : NVMF_ADMIN_SQ_ENTRIES;
	struct nvmf_connect_cmd cmd = {.opcode = NVME_FABRICS,
				       .flags = NVME_FLAGS_PSDT_SGL,
				       .fctype = NVMF_CONNECT,
				       .qid = put_le16((uint16_t)qid),
				       .sqsize = put_le16((uint16_t)(n - 1))};
	struct nvmf_connect_data data = {.cntlid = put_le16((uint16_t)cntlid)};
	struct nvme_sqe sqe;

	if (world & WORLD_KEEPS_ALIVE)
		cmd.kato = put_le32(60000);
	if (world & WORLD_NO_FLOW)
		cmd.cattr = NVMF_CATTR_DISABLE_SQFLOW;
	memcpy(&sqe, &cmd, sizeof(sqe));
	memset(data.hostid, host, sizeof(data.hostid));
	strcpy((char *)data.subnqn, subnqn);
	snprintf((char *)data.hostnqn, sizeof(data.hostnqn), HOSTNQN "%u", host);
	describe_in_capsule(&sqe, sizeof(data));
	open_good(i, qid);
	send_capsule(i, &sqe, (const uint8_t *)&data, sizeof(data));
	settle();
}

static void connect_queue(unsigned i, unsigned qid, const char *subnqn, uint8_t host,
			  unsigned cntlid, unsigned world)
{
	send_connect(i, qid, subnqn, host, cntlid, world);
	check(env.queues[i] && env.queues[i]->controller);
}

static void enable(unsigned i)
{
	struct nvmf_property_cmd cmd = {.opcode = NVME_FABRICS,
					.flags = NVME_FLAGS_PSDT_SGL,
					.fctype = NVMF_PROPERTY_SET,
					.offset = put_le32(NVME_PROP_CC),
					.value = put_le64(0x460001)};
	struct nvme_sqe sqe;

	memcpy(&sqe, &cmd, sizeof(sqe));
	describe_keyed(&sqe, 0, 0, NVME_SGL_KEYED_ADDRESS);
	send_capsule(i, &sqe, NULL, 0);
	settle();
}

static void connect_host(unsigned i, const char *subnqn, uint8_t host, unsigned world)
{
	connect_queue(i, 0, subnqn, host, NVMF_CNTLID_DYNAMIC, world);
	enable(i);
	if (!env.queues[i]->controller->is_discovery)
		connect_queue(i + 1, 1, subnqn, host, env.queues[i]->controller->id, world);
}

void host_begin(unsigned world, bool is_connected)
{
	const char *subnqn = world & WORLD_ANA ? ANA_SUBNQN : SUBNQN;

	if (!env.is_started)
		start();
	wire_set_inline(!(world & WORLD_NO_INLINE));
	wire_forget_memory();
	wire_hold(false);
	disk_say(0, 0, false);
	env.step = 0;
	env.n_at_once = 0;
	begin_target(world);
	if (!is_connected)
		return;
	connect_host(0, world & WORLD_DISCOVERY ? NVMF_DISCOVERY_NQN : subnqn, 1, world);
	connect_host(2, subnqn, 2, world);
	env.target.life = world & WORLD_STOPPING ? TARGET_STOPPING : TARGET_SERVING;
}

struct queue *host_queue(unsigned i)
{
	forget_dead();
	return env.queues[i];
}

void host_send(unsigned i, const struct nvme_sqe *sqe, size_t n)
{
	struct nvme_sqe keyed = *sqe;

	describe_keyed(&keyed, n, 0, NVME_SGL_KEYED_ADDRESS);
	send_capsule(i, &keyed, NULL, 0);
}

void host_settle(void)
{
	settle();
}

void host_ask(unsigned i, uint8_t host)
{
	send_connect(i, 0, SUBNQN, host, NVMF_CNTLID_DYNAMIC, 0);
}

void host_enter(unsigned i, uint8_t host)
{
	enable(i);
	connect_queue(i + 1, 1, SUBNQN, host, env.queues[i]->controller->id, 0);
}

void host_return(unsigned i)
{
	host_ask(i, 1);
	host_enter(i, 1);
}

/* ---- the script ----------------------------------------------------------------------------- */

struct script {
	const uint8_t *at;
	size_t n;
};

static const uint8_t *take(struct script *s, size_t n)
{
	const uint8_t *at = s->at;

	if (n > s->n) {
		s->n = 0;
		return NULL;
	}
	s->at += n;
	s->n -= n;
	return at;
}

/* The low bits of opcodes and of fabrics command types give the direction of the data. */
static bool sends_data(const struct nvme_sqe *sqe)
{
	uint8_t code = sqe->opcode == NVME_FABRICS ? sqe->nsid.b[0] : sqe->opcode;

	return (code & 3) == 1;
}

enum {
	STEP_RAW,
	STEP_KEYED,
	STEP_IN_CAPSULE,
	STEP_INVALIDATE,
	STEP_OPEN,
	STEP_CLOSE,
	STEP_DISK,
	STEP_TIME,
	STEP_KINDS,
	OTHERS_CHANGE = 0x7f, /* the errno of STEP_DISK that is none */
};

enum {			     /* of STEP_CLOSE, in place of a connection */
	NOTES_CHANGE = 0x80, /* with a namespace */
	GROUPS_ARE_OURS = 0xfc,
	GROUPS_ARE_OTHERS,
	DROPS_REGISTRANT,
	IS_STOPPING,
};

/* A script has this in place of an instance's number, which is random; a host reads it from
 * Identify. */
enum {
	INSTANCE_OF_CONTROLLER, /* that has the id, if there is one */
	INSTANCE_GONE,		/* of this process, and of no controller */
	INSTANCE_OF_OTHER,	/* of another process of this machine */
	INSTANCES,
};

static uint64_t number_of(unsigned instance, const struct controller *controller)
{
	const struct incarnation *own = &env.target.incarnation;
	struct incarnation other = {.machine = own->machine, .process = own->process ^ 1};

	switch (instance) {
	case INSTANCE_OF_CONTROLLER:
		return controller ? atomic_load(&controller->fencing.cirn) : 0;
	case INSTANCE_GONE:
		return incarnation_number(&env.target.incarnation);
	default:
		return incarnation_number(&other);
	}
}

static void name_instance(struct nvme_sqe *sqe)
{
	uint16_t icid = nvme_cross_reset_icid(sqe);
	unsigned instance = get_le32(sqe->cdw12);
	const struct controller *named = NULL;
	uint64_t cirn;

	if (instance >= INSTANCES || get_le32(sqe->cdw13))
		return;
	list_for_each (node, &env.target.controllers) {
		const struct controller *c = list_entry(node, struct controller, node);

		if (c->id == icid)
			named = c;
	}
	if (named)
		sqe->cdw10 = put_le32(icid | atomic_load(&named->fencing.ciu) << 16);
	cirn = number_of(instance, named);
	sqe->cdw12 = put_le32((uint32_t)cirn);
	sqe->cdw13 = put_le32((uint32_t)(cirn >> 32));
}

static void play_capsule(struct script *s, unsigned kind)
{
	const uint8_t *head = take(s, 3);
	const uint8_t *bytes = head ? take(s, sizeof(struct nvme_sqe)) : NULL;
	const uint8_t *data = NULL;
	size_t n = head ? head[1] | (size_t)head[2] << 8 : 0, n_data = 0;
	struct nvme_sqe sqe;

	if (!bytes)
		return;
	memcpy(&sqe, bytes, sizeof(sqe));
	if (kind == STEP_IN_CAPSULE || sends_data(&sqe)) {
		n_data = n < s->n ? n : s->n;
		data = take(s, n_data);
	}
	wire_set_memory(env.step, data, n_data);
	if (kind == STEP_IN_CAPSULE)
		describe_in_capsule(&sqe, n_data);
	else if (kind != STEP_RAW)
		describe_keyed(&sqe, n, env.step,
			       kind == STEP_KEYED ? NVME_SGL_KEYED_ADDRESS
						  : NVME_SGL_KEYED_INVALIDATE);
	if (kind != STEP_RAW && sqe.opcode == NVME_ADMIN_CROSS_RESET)
		name_instance(&sqe);
	env.step++;
	if (kind == STEP_KEYED || kind == STEP_INVALIDATE || n_data > WIRE_IN_CAPSULE_MAX)
		n_data = 0;
	send_capsule(head[0] % CONNS, &sqe, data, n_data);
}

static void expire(struct loop_timer *timer)
{
	if (!loop_timer_is_running(timer))
		return;
	loop_timer_stop(timer);
	timer->on_expiry(timer);
}

/* The timers of connections that have not sent Connect, or not authenticated, and of resets. */
static void expire_all(void)
{
	list_for_each_safe (node, &env.target.connections)
		expire(&list_entry(node, struct connection, node)->timer);
	list_for_each (node, &env.target.controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		for (unsigned i = 0; i < CROSS_RESET_ENTRIES; i++)
			expire(&controller->fencing.resets[i].patience);
	}
}

/* rblkd was stopped for longer than each KATO, and no timer has expired yet. */
static void fall_silent(void)
{
	list_for_each (node, &env.target.controllers) {
		struct controller *controller = list_entry(node, struct controller, node);
		uint64_t timeout = atomic_load(&controller->fencing.timeout);

		if (!timeout)
			continue;
		atomic_store(&controller->last_traffic, ticks_now() - timeout - 1);
		atomic_store(&controller->fencing.noted_until, 0);
	}
}

/* A host with the right key authenticates. */
static void prove(unsigned i)
{
	static struct auth_host host;
	struct auth_keys keys = {.key = env.key};
	enum auth_host_step step = auth_host_begin(&host, &keys, KEYED_HOST, SUBNQN);
	uint8_t page[AUTH_BUFFER_BYTES];

	while (step == AUTH_HOST_SEND || step == AUTH_HOST_RECEIVE) {
		struct nvme_sqe sqe = {0};
		uint32_t n = auth_host_fill_command(&host, step, &sqe);

		memset(page, 0, sizeof(page));
		describe_keyed(&sqe, n, 0, NVME_SGL_KEYED_ADDRESS);
		wire_set_memory(0, host.message, host.n_message);
		wire_set_sink(page, sizeof(page));
		send_capsule(i, &sqe, NULL, 0);
		settle();
		step = step == AUTH_HOST_SEND ? auth_host_sent(&host) : auth_host_take(&host, page);
	}
	wire_set_sink(NULL, 0);
	wire_set_memory(0, NULL, 0);
	auth_host_reset(&host);
}

/* Changes that no host makes. */
static void play_change(unsigned what)
{
	switch (what) {
	case IS_STOPPING:
		env.target.life = TARGET_STOPPING;
		return;
	case DROPS_REGISTRANT:
		change_registrant(&env.target, SUBNQN, 2, 2);
		return;
	case GROUPS_ARE_OTHERS:
		change_owner(&env.target, ANA_SUBNQN, ANA_OWNER_OTHER);
		return;
	case GROUPS_ARE_OURS:
		change_owner(&env.target, ANA_SUBNQN, ANA_OWNER_LOCK);
		return;
	}
	notice_discovery(&env.target);
	notice_ana(&env.target, ANA_SUBNQN, 0);
	notice_namespace(&env.target, SUBNQN, what & 0x7f);
}

static void play_close(unsigned what)
{
	if (what & NOTES_CHANGE)
		play_change(what);
	else if (what & 0x40)
		prove(what % CONNS);
	else
		hang_up(what % CONNS);
}

static void play_time(unsigned what)
{
	if ((what & 0x7f) == 0x7f) {
		expire_all();
		return;
	}
	if ((what & 0x7f) == 0x7e) {
		fall_silent();
		return;
	}
	env.n_at_once = 1 + (what & 0x7f);
	wire_hold(what & 0x80);
}

static void play_disk(struct script *s, unsigned error, unsigned n, bool is_flagged)
{
	size_t n_text = 4 * n < s->n ? 4 * n : s->n;

	if (error == OTHERS_CHANGE) {
		const uint8_t *text = take(s, n_text);

		records_change(text, n_text, is_flagged);
		disk_leave(text, n_text);
		return;
	}
	disk_say((int)error, n, is_flagged);
	records_resume();
}

static void play_step(struct script *s)
{
	unsigned kind = *take(s, 1) % STEP_KINDS;
	const uint8_t *head;

	switch (kind) {
	case STEP_OPEN:
		head = take(s, 34);
		if (head)
			open_conn(head[0] % CONNS, head[0] >> 4 & 3, head[1], head + 2);
		break;
	case STEP_CLOSE:
		head = take(s, 1);
		if (head)
			play_close(*head);
		break;
	case STEP_DISK:
		head = take(s, 2);
		if (head)
			play_disk(s, head[0] & 0x7f, head[1], head[0] & 0x80);
		break;
	case STEP_TIME:
		head = take(s, 1);
		if (head)
			play_time(*head);
		break;
	default:
		play_capsule(s, kind);
	}
	after_step();
}

void host_play(const uint8_t *script, size_t n)
{
	struct script s = {script, n};

	while (s.n)
		play_step(&s);
	env.n_at_once = 0;
	after_step();
}

void host_end(void)
{
	unsigned n = 0;

	wire_hold(false);
	disk_say(0, 0, false);
	records_resume();
	settle();
	for (unsigned i = 0; i < CONNS; i++)
		hang_up(i);
	while (env.target.n_connections || env.target.n_drops || !is_quiet()) {
		turn();
		if (is_quiet() && (env.target.n_connections || env.target.n_drops))
			loop_turn(&env.poller.loop, NSEC_PER_MSEC);
		check(++n < END_TURNS);
	}
	check(list_is_empty(&env.target.controllers) && list_is_empty(&env.target.hosts));
	check(wire_n_conns() == 0 && wire_n_recvs() == 0);
	check_successor(&env.target);
	end_target();
}
