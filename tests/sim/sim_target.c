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
#include "target/operations/life.h"
#include "tests/fuzz/fuzz_wire.h"
#include "tests/sim/sim.h"

enum {
	SETTLE_TURNS = 10000,
	BACKLOG_MAX = 512,
	PORTALS = SIM_PATHS,
};

static const char config_text[] =
	"version: 1\n"
	"tuning: {workers: 1, queue_depth: 32, inline_data: 4KiB, max_transfer: 64KiB,\n"
	"  buffers: 1MiB, shared_receives: 16, io_queues: 1}\n"
	"limits: {connect_rate: 1000000, connect_rate_per_host: 1000000}\n"
	"fencing: {quiesce: 2s}\n"
	"portals:\n"
	"  - {name: a, address: 192.0.2.1}\n"
	"  - {name: b, address: 192.0.2.2}\n"
	"subsystems:\n"
	"  - nqn: " SIM_SUBNQN "\n"
	"    allow_any_host: true\n"
	"    namespaces: [{nsid: 1, null: 1MiB}]\n";

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
	struct target_config config;
	struct conf *conf;
	struct queue *queues[SIM_CONNS];
	unsigned n_conns;
	bool has_hung_up[SIM_CONNS];
	bool is_started, is_stopped, is_write_through;
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
	       wire_is_quiet();
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

static void turn(void)
{
	struct loop *loops[] = {&env.target.loop, &env.poller.loop};
	unsigned first = sim_dice(2);

	loop_turn(loops[first], 0);
	loop_turn(loops[!first], 0);
	wire_turn();
}

void sim_target_settle(void)
{
	unsigned n = 0;

	if (env.is_stopped || env.life == GONE)
		return;
	while (!is_quiet()) {
		turn();
		check(++n < SETTLE_TURNS);
	}
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
	conf_free(env.conf);
	config_release(&env.config);
}

static void start_once(void)
{
	log_set_level((enum log_level) - 1); /* nothing */
	check(conf_read_text("sim.yaml", config_text, sizeof(config_text) - 1, &config_schema,
			     &env.config, stderr, &env.conf) == 0);
	config_check(&env.config, "sim.yaml", env.conf, stderr);
	check(conf_n_errors(env.conf) == 0);
	ticks_init();
	wire_start();
	atexit(stop);
	env.is_started = true;
}

static void on_response(struct qp *qp, const struct nvme_cqe *cqe);
static void on_data(struct qp *qp, uint32_t rkey, const void *data, size_t n);

static void start(void)
{
	const struct target_parts parts = {.config = &env.config,
					   .pollers = &env.poller,
					   .n_pollers = 1,
					   .check_stop = check_stop};
	static const struct wire_host host = {on_response, on_data};
	struct namespace *ns;

	memset(&env.target, 0, sizeof(env.target));
	memset(&env.poller, 0, sizeof(env.poller));
	check(target_init(&env.target, &parts) == 0);
	check(poller_init(&env.poller, &env.target, 0) == 0);
	check(target_export(&env.target, NULL, env.conf) == 0);
	ns = subsystem_namespace(snapshot_find(atomic_load(&env.target.snapshot), SIM_SUBNQN), 1);
	ns->backend->ops->close(ns->backend);
	ns->backend = sim_disk_open(&env.poller.loop);
	ns->is_write_through = env.is_write_through;
	ns->has_cache = !env.is_write_through;
	wire_set_host(&host);
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
	env.is_stopped = false;
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

void sim_target_end(void)
{
	check(!env.is_stopped && env.life == UP);
	disconnect_all();
	while (!has_nothing()) {
		uint64_t next = sim_next(), deadline = sim_target_deadline();

		sim_target_settle();
		if (has_nothing())
			break;
		next = next < deadline ? next : deadline;
		check(next != UINT64_MAX);
		sim_move_to(next > sim_now() ? next : sim_now());
	}
	check(wire_n_conns() == 0 && wire_n_recvs() == 0);
	end();
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
		wire_deliver(&queue->qp, &a->sqe, a->data, a->n);
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

void sim_target_kill(bool loses_power)
{
	if (!sim_target_is_up())
		return;
	sim_tell("target: %s", loses_power ? "loses power" : "is killed");
	wire_set_host(NULL);
	sim_disk_refuse(true);
	if (loses_power)
		sim_disk_lose_power();
	disconnect_all();
	env.life = DYING;
	sim_host_target_died(loses_power);
	if (loses_power)
		sim_load_power_was_lost();
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
	wire_connect(path % PORTALS, 2, private_data, n);
	if (env.target.n_connections == n_before)
		return SIM_NO_CONN;
	env.queues[conn] = list_entry(env.target.connections.prev, struct connection, node)->queue;
	env.n_conns++;
	sim_target_settle();
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
