/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers. The control thread makes one when another loop pays (pool.c), up to the number of queues
 * that the target grants; from then on the pair of thread and queue stays until the volume is
 * closed.
 *
 * Connections travel as messages: control -> worker (worker_add_conn), and back when they are done
 * or leave for another worker (on_conn_over), so each is owned by one thread at a time and no lock
 * is needed. A connection leaves when it has nothing in flight: until then it starts no request,
 * and what its client sends meanwhile waits in the socket. So nothing is answered out of order, and
 * nothing of it is with the queue that it leaves.
 *
 * A worker that is busy for most of a window tells control, if connections share it. While a worker
 * has no work, no timer runs.
 *
 * Replies that became ready in one turn of the loop are sent at its end: `source` exists only for
 * its flush hook, which flushes the connections marked dirty.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "nbd_bridge/io/nbd_reclaim.h"
#include "nbd_bridge/io/nbd_session.h"
#include "nbd_bridge/io/worker.h"

enum {
	/* Thousandths of a loop's time: with less than a quarter left, it delays its clients. */
	BUSY = 750,
};

#define WINDOW_NS (50 * NSEC_PER_MSEC)

static unsigned poll_nothing(struct loop_source *source)
{
	return 0;
}

static void on_busy(struct loop_msg *msg)
{
	struct worker *worker = container_of(msg, struct worker, busy_msg);

	atomic_store(&worker->is_busy_sent, false);
	worker->on_busy(worker);
}

/* The window is over. The next one begins with the next output. */
static void on_watched(struct loop_timer *timer)
{
	struct worker *worker = container_of(timer, struct worker, watch);
	uint64_t elapsed_ns = worker->nbd.loop.now_ns - worker->watched_ns;
	uint64_t busy_ns = worker->nbd.loop.busy_ns - worker->watched_busy_ns;

	if (busy_ns * 1000 < elapsed_ns * BUSY || worker->nbd.n_conns < 2 ||
	    worker->phase != WORKER_SERVING)
		return;
	if (!atomic_exchange(&worker->is_busy_sent, true))
		loop_send(worker->control, &worker->busy_msg);
}

static void begin_to_watch(struct worker *worker)
{
	if (!worker->on_busy || worker->phase != WORKER_SERVING)
		return;
	worker->watched_ns = worker->nbd.loop.now_ns;
	worker->watched_busy_ns = worker->nbd.loop.busy_ns;
	worker->watch.on_expiry = on_watched;
	loop_timer_start(&worker->nbd.loop, &worker->watch, WINDOW_NS);
}

static NOINLINE void flush_conns(struct worker *worker)
{
	struct list now;
	struct list *node;

	if (worker->nbd.n_conns > 1 && !loop_timer_is_running(&worker->watch))
		begin_to_watch(worker);
	list_init(&now);
	list_splice_tail(&now, &worker->nbd.dirty);
	while ((node = list_take_first(&now)))
		nbd_session_flush(list_entry(node, struct nbd_conn, dirty));
}

/* Most turns of a loop that polls have nothing to send. */
static void flush_dirty(struct loop_source *source)
{
	struct worker *worker = container_of(source, struct worker, source);

	if (!list_is_empty(&worker->nbd.dirty))
		flush_conns(worker);
}

static void *run(void *arg)
{
	struct worker *worker = arg;
	char name[16];

	snprintf(name, sizeof(name), "worker-%u", worker->index);
	pthread_setname_np(pthread_self(), name);
	loop_run(&worker->nbd.loop);
	return NULL;
}

int worker_new(struct volume *volume, struct loop *control, uint64_t spin, unsigned index,
	       struct worker **ret_worker)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int r;

	if (!worker)
		return -ENOMEM;
	worker->index = index;
	worker->control = control;
	list_init(&worker->nbd.conns);
	list_init(&worker->nbd.dirty);
	list_init(&worker->node);
	worker->busy_msg.run = on_busy;
	worker->nbd.reclaim.on_expiry = nbd_reclaim_on_look;
	r = loop_init(&worker->nbd.loop, spin, NULL);
	if (r < 0)
		goto out_free;
	loop_rest(&worker->nbd.loop, true);
	worker->source = (struct loop_source){.poll = poll_nothing, .flush = flush_dirty};
	loop_source_add(&worker->nbd.loop, &worker->source);
	/* The thread first: it can be ended at once, a queue cannot. */
	r = -pthread_create(&worker->thread, NULL, run, worker);
	if (r < 0)
		goto out_deinit_loop;
	r = volume_queue_add(volume, &worker->nbd.loop, &worker->nbd.queue);
	if (r < 0)
		goto out_join;
	*ret_worker = worker;
	return 0;

out_join:
	loop_stop(&worker->nbd.loop);
	pthread_join(worker->thread, NULL);
out_deinit_loop:
	loop_source_remove(&worker->source);
	loop_deinit(&worker->nbd.loop);
out_free:
	free(worker);
	return r;
}

void worker_free(struct worker *worker)
{
	check(!worker->n_assigned);
	loop_stop(&worker->nbd.loop);
	pthread_join(worker->thread, NULL);
	loop_timer_stop(&worker->watch);
	loop_timer_stop(&worker->nbd.reclaim);
	loop_source_remove(&worker->source);
	loop_deinit(&worker->nbd.loop);
	free(worker);
}

/* The target is back: held I/O of clients that are gone is not sent. */
static void look_at_conns(void *context)
{
	struct worker *worker = context;

	list_for_each_safe (node, &worker->nbd.conns)
		gate_look(list_entry(node, struct nbd_conn, node));
}

static void stop_conn(const struct worker *worker, struct nbd_conn *conn)
{
	/* The kernel's: its own end with the device, or by worker_drain_kernel. */
	if (conn->client != CLIENT_KERNEL && worker->phase >= WORKER_STOPPING)
		nbd_session_stop(conn);
	if (conn->client == CLIENT_KERNEL && worker->phase >= WORKER_DRAINING)
		nbd_session_drain(conn);
}

/* From another worker. The gate may have been asked while it was on neither. */
static void go_on(struct worker *worker, struct nbd_conn *conn)
{
	gate_look(conn);
	if (nbd_conn_is_open(conn))
		nbd_session_arrive(conn);
	stop_conn(worker, conn);
}

static void on_conn_arrived(struct loop_msg *msg)
{
	struct nbd_conn *conn = container_of(msg, struct nbd_conn, msg);
	struct nbd_thread *thread = conn->thread;

	list_add_tail(&thread->conns, &conn->node);
	thread->n_conns++;
	loop_rest(&thread->loop, false);
	nbd_conn_share_out(conn);
	volume_io_set_before_held(thread->queue, look_at_conns, worker_of_conn(conn));
	if (conn->state == CONN_NEW)
		nbd_session_start(conn);
	else
		go_on(worker_of_conn(conn), conn);
}

static void on_conn_returned(struct loop_msg *msg)
{
	struct nbd_conn *conn = container_of(msg, struct nbd_conn, msg);
	struct worker *worker = worker_of_conn(conn);

	check(worker->n_assigned > 0);
	worker->n_assigned--;
	if (nbd_conn_is_open(conn))
		worker->on_conn_left(worker, conn);
	else
		worker->on_conn_closed(worker, conn);
}

/* The connection goes back to control. */
static void on_conn_over(struct nbd_conn *conn)
{
	struct worker *worker = worker_of_conn(conn);

	list_remove(&conn->node);
	list_remove(&conn->dirty);
	worker->nbd.n_conns--;
	loop_rest(&worker->nbd.loop, worker->nbd.n_conns == 0);
	nbd_conn_share_out(conn);
	gate_conn_gone(worker, conn);
	conn->msg.run = on_conn_returned;
	loop_send(worker->control, &conn->msg);
}

void worker_add_conn(struct worker *worker, struct nbd_conn *conn)
{
	worker->n_assigned++;
	conn->thread = &worker->nbd;
	conn->on_over = on_conn_over;
	conn->msg.run = on_conn_arrived;
	loop_send(&worker->nbd.loop, &conn->msg);
}

static struct nbd_conn *find_conn(struct worker *worker, unsigned id)
{
	list_for_each (node, &worker->nbd.conns) {
		struct nbd_conn *conn = list_entry(node, struct nbd_conn, node);

		if (conn->id == id)
			return conn;
	}
	return NULL;
}

static void on_move_taken(struct loop_msg *msg)
{
	container_of(msg, struct worker, move.msg)->move.is_sent = false;
}

/* Those that are not found have ended meanwhile. */
static void on_move(struct loop_msg *msg)
{
	struct worker *worker = container_of(msg, struct worker, move.msg);

	for (unsigned i = 0; i < worker->move.n; i++) {
		struct nbd_conn *conn = find_conn(worker, worker->move.ids[i]);

		if (conn)
			nbd_session_leave(conn);
	}
	msg->run = on_move_taken;
	loop_send(worker->control, msg);
}

bool worker_ask_to_leave(struct worker *worker, const unsigned ids[], unsigned n)
{
	struct worker_move *move = &worker->move;

	check(n <= WORKER_MOVES_MAX);
	if (move->is_sent)
		return false;
	move->is_sent = true;
	move->n = n;
	memcpy(move->ids, ids, n * sizeof(*ids));
	move->msg.run = on_move;
	loop_send(&worker->nbd.loop, &move->msg);
	return true;
}

/* Those that arrive later find the phase. */
static void enter_phase(struct worker *worker, enum worker_phase phase)
{
	worker->phase = MAX(worker->phase, (unsigned)phase);
	list_for_each_safe (node, &worker->nbd.conns)
		stop_conn(worker, list_entry(node, struct nbd_conn, node));
}

static void on_stop(struct loop_msg *msg)
{
	enter_phase(container_of(msg, struct worker, stop_msg), WORKER_STOPPING);
}

void worker_stop_conns(struct worker *worker)
{
	worker->stop_msg.run = on_stop;
	loop_send(&worker->nbd.loop, &worker->stop_msg);
}

static void on_drain(struct loop_msg *msg)
{
	enter_phase(container_of(msg, struct worker, drain_msg), WORKER_DRAINING);
}

void worker_drain_kernel(struct worker *worker)
{
	worker->drain_msg.run = on_drain;
	loop_send(&worker->nbd.loop, &worker->drain_msg);
}

static void on_flushed(struct loop_msg *msg)
{
	struct worker *worker = container_of(msg, struct worker, flushed_msg);

	worker->on_flushed(worker, worker->flush_error);
}

static void on_flush_done(struct volume_io *io, int error)
{
	struct worker *worker = container_of(io, struct worker, flush_io);

	worker->flush_error = error;
	worker->flushed_msg.run = on_flushed;
	loop_send(worker->control, &worker->flushed_msg);
}

static void on_flush(struct loop_msg *msg)
{
	struct worker *worker = container_of(msg, struct worker, flush_msg);

	worker->flush_io = (struct volume_io){.op = VOLUME_FLUSH, .done = on_flush_done};
	volume_io_submit(worker->nbd.queue, &worker->flush_io);
}

void worker_flush_volume(struct worker *worker, void (*flushed)(struct worker *, int error))
{
	worker->on_flushed = flushed;
	worker->flush_msg.run = on_flush;
	loop_send(&worker->nbd.loop, &worker->flush_msg);
}
