/* SPDX-License-Identifier: BSD-3-Clause */
/* See sim.h: rblkd in this thread, its fabric, and how it is stopped and killed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/ticks.h"
#include "target/association/connection.h"
#include "target/engine/controller.h"
#include "target/engine/poller.h"
#include "target/export/health/record.h"
#include "target/operations/life.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_fabric.h"

enum {
	BACKLOG_MAX = 512,
	PORTALS = SIM_PATHS,
};

static const char config_text[] =
	"version: 1\n"
	"tuning: {workers: 1, queue_depth: 32, inline_data: %s, max_transfer: 64KiB,\n"
	"  buffers: 1MiB, shared_receives: 16, io_queues: 2}\n"
	"limits: {connect_rate: 1000000, connect_rate_per_host: 1000000}\n"
	"fencing: {quiesce: 2s}\n"
	"portals:\n"
	"  - {name: a, address: 192.0.2.1}\n"
	"  - {name: b, address: 192.0.2.2}\n"
	"subsystems:\n"
	"  - nqn: " SIM_SUBNQN "\n"
	"    allow_any_host: true\n"
	"    namespaces: [{nsid: 1, null: 1MiB,\n"
	"      uuid: 6d7a3a54-3d2f-4a5e-9c9b-0d5a3c1e2f01}]\n";

enum life {
	GONE,
	UP,
	DYING, /* killed: the kernel has its I/O still */
};

/* What reaches a target that is stopped, in order. */
struct arrival {
	unsigned conn;
	bool is_hang_up;
	struct nvme_sqe sqe;
	uint8_t data[sizeof(struct nvmf_connect_data)];
	size_t n;
};

static struct {
	struct target target;
	struct poller poller;
	struct config {
		struct target_config config;
		struct conf *conf;
	} configs[2], *config; /* data in capsules; or by RDMA READ */
	struct queue *queues[SIM_CONNS];
	unsigned n_conns;
	bool has_hung_up[SIM_CONNS];
	bool is_started, is_stopped, is_write_through, is_ending;
	unsigned n_starts, n_power_losses;
	enum life life;
	unsigned stop; /* counts stops */
	struct arrival backlog[BACKLOG_MAX];
	unsigned n_backlog;
} env;

static void check_stop(struct target *target)
{
}

/* ---- turns ---------------------------------------------------------------------------------- */

static bool is_loop_quiet(const struct loop *loop)
{
	return list_is_empty(&loop->calls) && !atomic_load(&loop->inbox) &&
	       loop_deadline_ns(loop) > sim_now();
}

static bool is_quiet(void)
{
	return is_loop_quiet(&env.target.loop) && is_loop_quiet(&env.poller.loop) &&
	       !fabric_has_work(FABRIC_TARGET);
}

bool sim_target_is_quiet(void)
{
	return env.is_stopped || env.life == GONE || is_quiet();
}

static void forget_dead(void)
{
	for (unsigned i = 0; i < env.n_conns; i++) {
		bool is_there = false;

		if (!env.queues[i])
			continue;
		list_for_each (node, &env.target.connections)
			if (list_entry(node, struct connection, node)->queue == env.queues[i])
				is_there = true;
		if (!is_there)
			env.queues[i] = NULL;
	}
}

void sim_target_turn(void)
{
	struct loop *loops[] = {&env.target.loop, &env.poller.loop};
	unsigned first = sim_dice(2);

	if (env.is_stopped || env.life == GONE)
		return;
	loop_turn(loops[first], 0);
	loop_turn(loops[!first], 0);
	forget_dead();
}

uint64_t sim_target_deadline(void)
{
	uint64_t a, b;

	if (env.is_stopped || env.life == GONE)
		return UINT64_MAX;
	a = loop_deadline_ns(&env.target.loop);
	b = loop_deadline_ns(&env.poller.loop);
	return a < b ? a : b;
}

/* ---- life ----------------------------------------------------------------------------------- */

static void stop(void)
{
	for (unsigned i = 0; i < 2; i++) {
		conf_free(env.configs[i].conf);
		config_release(&env.configs[i].config);
	}
}

static void read_config(struct config *config, const char *inline_data)
{
	char text[sizeof(config_text) + 16];

	snprintf(text, sizeof(text), config_text, inline_data);
	check(conf_read_text("sim.yaml", text, strlen(text), &config_schema, &config->config,
			     stderr, &config->conf) == 0);
	config_check(&config->config, "sim.yaml", config->conf, stderr);
	check(conf_n_errors(config->conf) == 0);
}

static void start_once(void)
{
	log_set_level((enum log_level) - 1); /* nothing */
	read_config(&env.configs[0], "4KiB");
	read_config(&env.configs[1], "0");
	ticks_init();
	atexit(stop);
	env.is_started = true;
}

static void on_response(struct qp *qp, const struct nvme_cqe *cqe);
static void on_data(struct qp *qp, uint32_t rkey, const void *data, size_t n);

static void start(void)
{
	const struct target_parts parts = {.config = &env.config->config,
					   .pollers = &env.poller,
					   .n_pollers = 1,
					   .check_stop = check_stop};
	static const struct fabric_host host = {on_response, on_data};
	struct subsystem *subsystem;
	struct namespace *ns;

	memset(&env.target, 0, sizeof(env.target));
	memset(&env.poller, 0, sizeof(env.poller));
	check(target_init(&env.target, &parts) == 0);
	check(poller_init(&env.poller, &env.target, 0) == 0);
	check(target_export(&env.target, NULL, env.config->conf) == 0);
	subsystem = snapshot_find(atomic_load(&env.target.snapshot), SIM_SUBNQN);
	ns = subsystem_namespace(subsystem, 1);
	ns->backend->ops->close(ns->backend);
	ns->backend = sim_disk_open(&env.poller.loop);
	ns->is_write_through = env.is_write_through;
	ns->has_cache = !env.is_write_through;
	/* As the state directory would have it. */
	subsystem->health->past.power_cycles += env.n_starts++;
	subsystem->health->past.unsafe_shutdowns += env.n_power_losses;
	fabric_set_host(&host);
	fabric_revive(FABRIC_TARGET);
	check(target_listen(&env.target) == 0);
	env.life = UP;
}

static void end(void)
{
	target_close(&env.target);
	poller_device_stop(&env.poller.devices[0]);
	poller_deinit(&env.poller);
	target_withdraw(&env.target);
	target_deinit(&env.target);
	env.life = GONE;
}

void sim_target_begin(bool is_write_through)
{
	if (!env.is_started)
		start_once();
	env.n_conns = env.n_backlog = 0;
	memset(env.queues, 0, sizeof(env.queues));
	memset(env.has_hung_up, 0, sizeof(env.has_hung_up));
	env.is_stopped = env.is_ending = false;
	env.n_starts = env.n_power_losses = 0;
	env.config = &env.configs[sim_chance(50)];
	env.is_write_through = is_write_through;
	sim_disk_begin();
	start();
}

static void disconnect_all(void)
{
	for (unsigned i = 0; i < env.n_conns; i++)
		sim_target_hang_up(i);
}

static bool has_nothing(void)
{
	return list_is_empty(&env.target.connections) && is_quiet() && sim_disk_is_quiet();
}

bool sim_target_end(void)
{
	if (env.life == GONE)
		return true;
	check(!env.is_stopped && env.life == UP);
	if (!env.is_ending)
		disconnect_all();
	env.is_ending = true;
	if (!has_nothing())
		return false;
	end();
	return true;
}

/* ---- stopped and killed --------------------------------------------------------------------- */

static void deliver(const struct arrival *a)
{
	struct queue *queue = env.queues[a->conn];

	if (!queue || env.has_hung_up[a->conn])
		return;
	env.has_hung_up[a->conn] = a->is_hang_up;
	if (a->is_hang_up)
		queue->connection->cm->ops->on_disconnected(queue->connection->cm);
	else if (queue->qp.state == QP_LIVE)
		fabric_raw_deliver(&queue->qp, &a->sqe, a->data, a->n);
}

static void arrive(const struct arrival *a)
{
	if (!env.is_stopped) {
		deliver(a);
	} else {
		check(env.n_backlog < BACKLOG_MAX);
		env.backlog[env.n_backlog++] = *a;
	}
}

static void go_on(unsigned what)
{
	unsigned n = env.n_backlog;

	if (!env.is_stopped || what != env.stop)
		return;
	sim_tell("target: continues");
	env.is_stopped = false;
	env.n_backlog = 0;
	/* Before any timer, as a poller takes what its completion queue has. */
	for (unsigned i = 0; i < n; i++)
		deliver(&env.backlog[i]);
}

void sim_target_stop(uint64_t ns)
{
	if (!sim_target_is_up())
		return;
	sim_tell("target: is stopped for %u ms", (unsigned)(ns / NSEC_PER_MSEC));
	env.is_stopped = true;
	sim_after(ns, go_on, ++env.stop);
}

static void restart(unsigned what);

/* Its memory goes when the kernel has given back its I/O; then the next one starts. */
static void bury(unsigned what)
{
	if (!has_nothing()) {
		sim_after(NSEC_PER_MSEC, bury, 0);
		return;
	}
	end();
	memset(env.queues, 0, sizeof(env.queues));
	sim_after(sim_between_us(1000, 400000), restart, 0);
}

static void restart(unsigned what)
{
	start();
	sim_tell("target: starts");
}

bool sim_target_is_up(void)
{
	return env.life == UP && !env.is_stopped;
}

bool sim_target_is_write_through(void)
{
	return env.is_write_through;
}

void sim_target_kill(bool loses_power)
{
	if (!sim_target_is_up())
		return;
	/* What has arrived at hosts is theirs. */
	if (loses_power)
		sim_settle();
	sim_tell("target: %s", loses_power ? "loses power" : "is killed");
	env.n_power_losses += loses_power;
	fabric_set_host(NULL);
	fabric_kill(FABRIC_TARGET, loses_power);
	sim_disk_refuse(true);
	if (loses_power)
		sim_disk_lose_power();
	disconnect_all();
	env.life = DYING;
	sim_host_target_died(loses_power);
	if (loses_power) {
		sim_load_power_was_lost();
		sim_check_power_was_lost();
	}
	bury(0);
}

/* ---- the fabric ----------------------------------------------------------------------------- */

static unsigned find_conn(const struct queue *queue)
{
	for (unsigned i = env.n_conns; i-- > 0;)
		if (env.queues[i] == queue)
			return i;
	return SIM_NO_CONN;
}

static void on_response(struct qp *qp, const struct nvme_cqe *cqe)
{
	unsigned conn = find_conn(container_of(qp, struct queue, qp));

	if (conn != SIM_NO_CONN)
		sim_host_on_response(conn, cqe);
}

static void on_data(struct qp *qp, uint32_t rkey, const void *data, size_t n)
{
	unsigned conn = find_conn(container_of(qp, struct queue, qp));

	if (conn != SIM_NO_CONN)
		sim_host_on_data(conn, rkey, data, n);
}

unsigned sim_target_conn_of(struct backend_io *io)
{
	return io->purpose == BACKEND_FOR_COMMAND
		       ? find_conn(container_of(io, struct request, io)->queue)
		       : SIM_NO_CONN;
}

unsigned sim_target_connect(unsigned path, const void *private_data, size_t n)
{
	unsigned n_before = env.target.n_connections, conn = env.n_conns;

	if (!sim_target_is_up() || conn == SIM_CONNS)
		return SIM_NO_CONN;
	fabric_raw_connect(path % PORTALS, private_data, n);
	if (env.target.n_connections == n_before)
		return SIM_NO_CONN;
	env.queues[conn] = list_entry(env.target.connections.prev, struct connection, node)->queue;
	env.n_conns++;
	while (!is_quiet())
		sim_target_turn();
	return env.queues[conn] ? conn : SIM_NO_CONN;
}

void sim_target_deliver(unsigned conn, const struct nvme_sqe *sqe, const void *data, size_t n)
{
	struct arrival a = {.conn = conn, .sqe = *sqe, .n = n};

	check(n <= sizeof(a.data));
	if (n)
		memcpy(a.data, data, n);
	if (env.life == UP)
		arrive(&a);
}

void sim_target_hang_up(unsigned conn)
{
	struct arrival a = {.conn = conn, .is_hang_up = true};

	if (env.life == UP)
		arrive(&a);
}

bool sim_target_has(unsigned conn)
{
	const struct queue *queue = env.queues[conn];

	return queue && !queue->connection->cm->is_disconnected;
}
