/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool. One worker serves all connections as long as one suffices: its loop polls for all of
 * them, and what they ask for in one turn leaves as one chain of SENDs. A thread for each
 * connection would take CPUs from the clients, and from a target on this machine.
 *
 * A worker that connections share says so when it is busy (worker.h). The pool then looks at what
 * its loops do and at the CPUs that stand idle (cpus.h: affinity and cpuset; a quota limits the
 * number of loops), and moves connections as balance.h decides. It looks again at growing
 * intervals as long as there may be something to decide, so an idle volume has no timer.
 *
 *   control                                the worker that is left      another
 *   goes_to = another     -- move -->      no new request; when what
 *                                          is in flight has been
 *                         <-- conn --      answered
 *                         -- conn ----------------------------->      goes on
 */
#include "nbd_bridge/control/pool.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/log.h"

#define PERIOD_MIN_NS (50 * NSEC_PER_MSEC)
#define PERIOD_MAX_NS (800 * NSEC_PER_MSEC)

static struct worker *worker_at(const struct pool *pool, unsigned at)
{
	list_for_each (node, &pool->workers)
		if (!at--)
			return list_entry(node, struct worker, node);
	return NULL;
}

static bool is_elastic(const struct pool *pool)
{
	return !pool->config.is_fixed && pool->config.n_max > 1;
}

/* ---- workers ------------------------------------------------------------------------------- */

static void on_busy(struct worker *worker);

static void on_conn_left(struct worker *worker, struct nbd_conn *conn)
{
	struct pool *pool = container_of(worker->gate.gate, struct pool, gate);
	struct worker *to = conn->goes_to;

	check(to);
	conn->goes_to = NULL;
	pool->n_moves++;
	worker_add_conn(to, conn);
}

int pool_add_worker(struct pool *pool)
{
	const struct pool_config *config = &pool->config;
	struct worker *worker;
	int r = worker_new(config->volume, config->loop, config->spin, pool->n_workers, &worker);

	if (r < 0)
		return r;
	worker->owner = config->owner;
	worker->on_conn_closed = config->on_conn_closed;
	worker->on_conn_left = on_conn_left;
	worker->on_busy = is_elastic(pool) ? on_busy : NULL;
	list_add_tail(&pool->workers, &worker->node);
	gate_add_worker(&pool->gate, worker);
	pool->n_workers++;
	return 0;
}

/* ---- looking -------------------------------------------------------------------------------- */

/* Since the last time that this was called. */
static void measure_loads(struct pool *pool)
{
	uint64_t now_ns = clock_ns(), elapsed_ns = MAX(1U, now_ns - pool->looked_ns);

	list_for_each (node, &pool->workers) {
		struct worker *worker = list_entry(node, struct worker, node);
		uint64_t busy_ns = counter_get(&worker->nbd.loop.busy_ns);
		uint64_t n_ns = busy_ns - worker->looked_busy_ns;

		worker->load = (unsigned)(MIN(n_ns, elapsed_ns) * 1000 / elapsed_ns);
		worker->looked_busy_ns = busy_ns;
	}
	pool->looked_ns = now_ns;
}

static unsigned describe_loops(const struct pool *pool, struct balance_loop loops[])
{
	unsigned n = 0;

	list_for_each (node, &pool->workers) {
		const struct worker *worker = list_entry(node, struct worker, node);

		loops[n++] = (struct balance_loop){worker->load, worker->n_assigned};
	}
	return n;
}

static uint64_t n_requests_since(const struct nbd_conn *conn)
{
	return counter_get(&conn->n_requests) - conn->n_looked;
}

static uint64_t n_requests_of(const struct pool *pool, const struct worker *worker)
{
	uint64_t n = 0;

	list_for_each (node, pool->config.conns) {
		const struct nbd_conn *conn = list_entry(node, struct nbd_conn, owned);

		n += worker_of_conn(conn) == worker ? n_requests_since(conn) : 0;
	}
	return n;
}

static void remember_requests(struct pool *pool)
{
	list_for_each (node, pool->config.conns) {
		struct nbd_conn *conn = list_entry(node, struct nbd_conn, owned);

		conn->n_looked = counter_get(&conn->n_requests);
	}
}

/* One that is in the middle of a payload leaves late. It does not hold up the others. */
static bool can_be_asked(const struct nbd_conn *conn, const struct worker *from)
{
	return worker_of_conn(conn) == from && !conn->goes_to;
}

/* Connections of a busy worker whose work together is half of what it has more than the other one,
 * or less. Connections without requests stay. */
static unsigned choose_some(const struct pool *pool, const struct worker *from,
			    const struct worker *to, unsigned ids[])
{
	uint64_t n_from = n_requests_of(pool, from), n_to = to ? n_requests_of(pool, to) : 0;
	uint64_t n_left = n_from > n_to ? (n_from - n_to) / 2 : 0;
	unsigned n = 0;

	list_for_each (node, pool->config.conns) {
		const struct nbd_conn *conn = list_entry(node, struct nbd_conn, owned);
		uint64_t n_own = n_requests_since(conn);

		if (!can_be_asked(conn, from) || !n_own || n_own > n_left || n == WORKER_MOVES_MAX)
			continue;
		n_left -= n_own;
		ids[n++] = conn->id;
	}
	return n;
}

static unsigned choose_all(const struct pool *pool, const struct worker *from, unsigned ids[])
{
	unsigned n = 0;

	list_for_each (node, pool->config.conns) {
		const struct nbd_conn *conn = list_entry(node, struct nbd_conn, owned);

		if (can_be_asked(conn, from) && n < WORKER_MOVES_MAX)
			ids[n++] = conn->id;
	}
	return n;
}

static bool is_among(unsigned id, const unsigned ids[], unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

bool pool_move(struct pool *pool, struct worker *from, struct worker *to, const unsigned ids[],
	       unsigned n)
{
	check(from != to);
	if (!worker_ask_to_leave(from, ids, n))
		return false;
	list_for_each (node, pool->config.conns) {
		struct nbd_conn *conn = list_entry(node, struct nbd_conn, owned);

		if (is_among(conn->id, ids, n) && worker_of_conn(conn) == from)
			conn->goes_to = to;
	}
	return true;
}

static void carry_out(struct pool *pool, const struct balance_move *move)
{
	struct worker *from = worker_at(pool, move->from), *to = worker_at(pool, move->to);
	unsigned ids[WORKER_MOVES_MAX];
	unsigned n = move->verdict == BALANCE_GATHER ? choose_all(pool, from, ids)
						     : choose_some(pool, from, to, ids);

	if (!n || (!to && pool_add_worker(pool) < 0))
		return;
	to = worker_at(pool, move->to);
	log_debug("worker %u is at %u of 1000, worker %u at %u: %u connections move", from->index,
		  from->load, to->index, to->load, n);
	pool_move(pool, from, to, ids, n);
}

static void on_look(struct loop_timer *timer)
{
	struct pool *pool = container_of(timer, struct pool, look);
	struct balance_loop loops[VOLUME_QUEUES_MAX];
	unsigned idle = cpus_idle_look(&pool->idle, clock_ns()), n;
	struct balance_move move;

	measure_loads(pool);
	n = describe_loops(pool, loops);
	move = balance_look(&pool->balance, loops, n, MIN(pool->config.n_max, cpus_usable()), idle);
	if (move.verdict != BALANCE_KEEP)
		carry_out(pool, &move);
	remember_requests(pool);
	pool->period_ns = move.verdict == BALANCE_KEEP ? MIN(pool->period_ns * 2, PERIOD_MAX_NS)
						       : PERIOD_MIN_NS;
	if (balance_must_look(loops, n))
		loop_timer_start(pool->config.loop, timer, pool->period_ns);
}

/* The first look is the base of the next. */
static void begin_to_look(struct pool *pool)
{
	if (loop_timer_is_running(&pool->look) || !pool->look.on_expiry)
		return;
	pool->balance = (struct balance){0};
	pool->period_ns = PERIOD_MIN_NS;
	cpus_idle_look(&pool->idle, clock_ns());
	measure_loads(pool);
	remember_requests(pool);
	loop_timer_start(pool->config.loop, &pool->look, pool->period_ns);
}

static void on_busy(struct worker *worker)
{
	begin_to_look(container_of(worker->gate.gate, struct pool, gate));
}

/* ---- connections ----------------------------------------------------------------------------- */

static bool is_better(const struct pool *pool, const struct worker *worker,
		      const struct worker *best)
{
	if (pool->config.is_fixed || worker->load == best->load)
		return worker->n_assigned < best->n_assigned;
	return worker->load < best->load;
}

/* The worker with the least to do, of those in use or of all. */
static struct worker *find_worker(const struct pool *pool, bool must_be_used)
{
	struct worker *best = NULL;

	list_for_each (node, &pool->workers) {
		struct worker *worker = list_entry(node, struct worker, node);

		if ((worker->n_assigned || !must_be_used) &&
		    (!best || is_better(pool, worker, best)))
			best = worker;
	}
	return best;
}

static struct worker *choose_worker(struct pool *pool)
{
	struct worker *best;

	if (!pool->config.is_fixed)
		return find_worker(pool, true) ?: find_worker(pool, false);
	best = find_worker(pool, false);
	if (best->n_assigned && pool->n_workers < pool->config.n_max && pool_add_worker(pool) == 0)
		best = find_worker(pool, false);
	return best;
}

void pool_add(struct pool *pool, struct nbd_conn *conn, bool is_alone)
{
	conn->ticket = gate_take_ticket(&pool->gate, is_alone);
	worker_add_conn(choose_worker(pool), conn);
	gate_ask(&pool->gate);
	if (!is_alone && is_elastic(pool))
		begin_to_look(pool);
}

/* ---- life ------------------------------------------------------------------------------------ */

void pool_init(struct pool *pool)
{
	*pool = (struct pool){0};
	list_init(&pool->workers);
	pool->gate.workers = &pool->workers;
}

int pool_start(struct pool *pool, const struct pool_config *config)
{
	pool->config = *config;
	pool->look.on_expiry = on_look;
	pool->looked_ns = clock_ns();
	return pool_add_worker(pool);
}

void pool_stop(struct pool *pool)
{
	loop_timer_stop(&pool->look);
	pool->look.on_expiry = NULL;
}

void pool_free_workers(struct pool *pool)
{
	list_for_each_safe (node, &pool->workers) {
		list_remove(node);
		worker_free(list_entry(node, struct worker, node));
	}
	pool->n_workers = 0;
}
