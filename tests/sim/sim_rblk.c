/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See sim.h: rblk in this thread. Its volume, its pool of workers and its NBD connections are the
 * program's own; this file is what a volume process does around them (nbd_bridge/control/bridge.c),
 * and how it is stopped and killed. Workers have loops, but no threads: pthread_create is wrapped.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "initiator/control/volume_impl.h"
#include "nbd_bridge/control/pool.h"
#include "nbd_bridge/io/nbd_conn.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_fabric.h"

enum {
	QUEUES = 2,
	SLAB_BYTES = VOLUME_SLAB_MIN,
	KICKS = 3, /* turns after which a worker has looked at its sockets */
};

/*
 *   GONE -> OPENING -> UP -> CLOSING_CONNS -> CLOSING_QUEUES -> CLOSING -> GONE
 *              |                                                  A
 *              +--------------------------------------------------+
 */
enum life {
	GONE,
	OPENING,
	UP,
	CLOSING_CONNS,	/* connections of clients end */
	CLOSING_QUEUES, /* the queues of the workers are being removed */
	CLOSING,	/* the volume is */
};

static struct {
	enum life life;
	bool is_killed, is_stopped, is_ending, has_failed;
	struct loop control;
	struct volume *volume;
	struct pool pool;
	struct nbd_export export;
	struct list conns; /* owned: of struct nbd_conn (owned) */
	unsigned n_conns, n_ids, n_queues, n_kicks, stop;
	char state_file[64];
} env;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *context);
int __wrap_pthread_join(pthread_t thread, void **ret);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *context)
{
	memset(thread, 0, sizeof(*thread));
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **ret)
{
	return 0;
}

/* ---- its end -------------------------------------------------------------------------------- */

static void on_queue_removed(void *context)
{
	env.n_queues--;
}

static void remove_queues(void)
{
	env.life = CLOSING_QUEUES;
	list_for_each_safe (node, &env.pool.workers) {
		env.n_queues++;
		volume_queue_remove(list_entry(node, struct worker, node)->nbd.queue,
				    on_queue_removed, NULL);
	}
}

static void close_volume(void)
{
	env.life = CLOSING;
	pool_free_workers(&env.pool);
	nbd_export_deinit(&env.export);
	volume_close(env.volume);
}

static void start(unsigned what);

static void be_gone(void)
{
	env.life = GONE;
	loop_deinit(&env.control);
	if (!env.is_ending)
		sim_after(sim_between_us(1000, 300000), start, 0);
}

/* The next step, if this one is over. */
static void go_on_ending(void)
{
	if (env.life == CLOSING_CONNS && !env.n_conns)
		remove_queues();
	if (env.life == CLOSING_QUEUES && !env.n_queues)
		close_volume();
	if (env.life == CLOSING && !env.volume)
		be_gone();
}

static void begin_to_end(void)
{
	if (env.life == UP) {
		env.life = CLOSING_CONNS;
		pool_stop(&env.pool);
		list_for_each (node, &env.pool.workers)
			worker_stop_conns(list_entry(node, struct worker, node));
	} else if (env.life == OPENING) {
		env.life = CLOSING;
		volume_close(env.volume);
	}
}

/* ---- its life ------------------------------------------------------------------------------- */

static void on_conn_closed(struct worker *worker, struct nbd_conn *conn)
{
	list_remove(&conn->owned);
	env.n_conns--;
	nbd_conn_free(conn);
}

static void on_opened(void *context, const struct error *error)
{
	struct pool_config config = {.loop = &env.control,
				     .volume = env.volume,
				     .conns = &env.conns,
				     .n_max = QUEUES,
				     .is_fixed = true,
				     .on_conn_closed = on_conn_closed};
	struct volume_info info;

	if (env.life != OPENING)
		return;
	if (error) {
		sim_tell("rblk: cannot attach: %s", error->message);
		env.life = CLOSING;
		volume_close(env.volume);
		return;
	}
	volume_get_info(env.volume, &info);
	check(nbd_export_init(&env.export, "a", "volume", &info, SLAB_BYTES) == 0);
	nbd_export_update(&env.export, &info, false);
	env.export.max_established = 64;
	check(pool_start(&env.pool, &config) == 0);
	env.life = UP;
	sim_tell("rblk: is attached");
}

static void on_state(void *context, enum volume_state state)
{
	sim_tell("rblk: the volume is %s", volume_state_name(state));
	if (state == VOLUME_FAILED && env.life == UP)
		sim_wrong("the volume has failed: %s", env.volume->last_error.message);
}

static void on_changed(void *context)
{
}

static void on_closed(void *context)
{
	env.volume = NULL;
}

static void start(unsigned what)
{
	static const struct volume_callbacks callbacks = {on_opened, on_state, on_changed,
							  on_closed};
	struct volume_config config;

	volume_config_init(&config);
	config.address.in.sin_family = AF_INET;
	config.address.in.sin_port = htons(4420);
	inet_pton(AF_INET, "192.0.2.1", &config.address.in.sin_addr);
	strcpy(config.subnqn, SIM_SUBNQN);
	strcpy(config.hostnqn, "nqn.2026-01.org.example:host");
	memset(config.hostid, 1, sizeof(config.hostid));
	config.n_queues = QUEUES;
	config.queue_size = 16;
	config.slab_bytes = SLAB_BYTES;
	config.keep_alive_ns = SIM_KATO_MS * NSEC_PER_MSEC;
	config.reconnect_delay_ns = 400 * NSEC_PER_MSEC;
	config.io_timeout_ns = 3 * NSEC_PER_SEC;
	strcpy(config.state_file, env.state_file);
	check(loop_init(&env.control, 0, NULL) == 0);
	pool_init(&env.pool);
	list_init(&env.conns);
	env.n_conns = env.n_queues = 0;
	env.is_killed = false;
	env.life = OPENING;
	fabric_revive(FABRIC_HOST);
	check(volume_open(&env.control, &config, &callbacks, NULL, &env.volume) == 0);
}

static void remove_state_file(void)
{
	unlink(env.state_file);
}

void sim_rblk_begin(void)
{
	if (!env.state_file[0]) {
		snprintf(env.state_file, sizeof(env.state_file), "/tmp/sim-%d.state", getpid());
		atexit(remove_state_file);
	}
	remove_state_file();
	env.is_stopped = env.is_ending = false;
	env.n_kicks = 0;
	start(0);
}

bool sim_rblk_end(void)
{
	env.is_ending = true;
	if (!env.is_killed)
		begin_to_end();
	return env.life == GONE;
}

/* ---- turns ---------------------------------------------------------------------------------- */

static bool is_loop_quiet(const struct loop *loop)
{
	return list_is_empty(&loop->calls) && !atomic_load(&loop->inbox) &&
	       loop_deadline_ns(loop) > sim_now();
}

static bool can_run(void)
{
	return env.life != GONE && !env.is_stopped;
}

static bool is_ready_for_next(void)
{
	return (env.life == CLOSING_CONNS && !env.n_conns) ||
	       (env.life == CLOSING_QUEUES && !env.n_queues) ||
	       (env.life == CLOSING && !env.volume);
}

bool sim_rblk_is_quiet(void)
{
	if (!can_run())
		return true;
	if (env.n_kicks || is_ready_for_next() || !is_loop_quiet(&env.control) ||
	    fabric_has_work(FABRIC_HOST))
		return false;
	list_for_each (node, &env.pool.workers)
		if (!is_loop_quiet(&list_entry(node, struct worker, node)->nbd.loop))
			return false;
	return true;
}

static void turn_workers(void)
{
	list_for_each (node, &env.pool.workers)
		loop_turn(&list_entry(node, struct worker, node)->nbd.loop, 0);
}

void sim_rblk_turn(void)
{
	bool is_control_first = sim_chance(50);

	if (!can_run())
		return;
	if (is_control_first)
		loop_turn(&env.control, 0);
	turn_workers();
	if (!is_control_first)
		loop_turn(&env.control, 0);
	env.n_kicks -= env.n_kicks > 0;
	go_on_ending();
}

uint64_t sim_rblk_deadline(void)
{
	uint64_t first, at;

	if (!can_run())
		return UINT64_MAX;
	first = loop_deadline_ns(&env.control);
	list_for_each (node, &env.pool.workers) {
		at = loop_deadline_ns(&list_entry(node, struct worker, node)->nbd.loop);
		first = at < first ? at : first;
	}
	return first;
}

/* ---- stopped and killed --------------------------------------------------------------------- */

static void go_on(unsigned what)
{
	if (!env.is_stopped || what != env.stop)
		return;
	sim_tell("rblk: continues");
	env.is_stopped = false;
	env.n_kicks = KICKS;
}

void sim_rblk_stop(uint64_t ns)
{
	if (env.life != UP || env.is_stopped)
		return;
	sim_tell("rblk: is stopped for %u ms", (unsigned)(ns / NSEC_PER_MSEC));
	env.is_stopped = true;
	sim_after(ns, go_on, ++env.stop);
}

/* What is left of it gives back its memory; nothing of that leaves it. */
void sim_rblk_kill(void)
{
	if (env.life != UP || env.is_stopped)
		return;
	sim_tell("rblk: is killed");
	env.volume->config.state_file[0] = '\0';
	sim_nbd_end();
	fabric_kill(FABRIC_HOST, false);
	sim_check_programs_died();
	env.is_killed = true;
	begin_to_end();
	env.n_kicks = KICKS;
}

/* ---- clients -------------------------------------------------------------------------------- */

int sim_rblk_connect(void)
{
	struct nbd_conn *conn;
	int fds[2];

	if (env.life != UP || env.is_stopped || env.n_conns > 32)
		return -1;
	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	conn = nbd_conn_new(&env.export, ++env.n_ids, fds[0], CLIENT_UNIX);
	check(conn);
	list_add_tail(&env.conns, &conn->owned);
	env.n_conns++;
	pool_add(&env.pool, conn, env.n_conns == 1);
	env.n_kicks = KICKS;
	return fds[1];
}

void sim_rblk_kick(void)
{
	env.n_kicks = KICKS;
}
