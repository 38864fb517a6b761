/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers. The control thread makes one when a connection comes for which none is idle,
 * up to what the target grants; from then on the pair of thread and queue stays until the
 * volume is closed.
 *
 * Connections travel as messages: control -> worker (worker_add_conn), and back when they
 * are done (worker_return_conn), so each is owned by one thread at a time and no lock is
 * needed.
 *
 * Replies that became ready in one turn of the loop are sent at its end: `source` is
 * there only for its flush hook, which visits the connections marked dirty.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "nbd_bridge/io/worker.h"

enum {
	SPIN_NS = 20000, /* how long a worker polls before it sleeps */
};

static unsigned poll_nothing(struct loop_source *source)
{
	return 0;
}

static __attribute__((noinline)) void flush_conns(struct worker *worker)
{
	struct list now;
	struct list *node;

	list_init(&now);
	list_splice_tail(&now, &worker->dirty);
	while ((node = list_take_first(&now)))
		nbd_conn_flush(list_entry(node, struct nbd_conn, dirty));
}

/* Most turns of a loop that polls have nothing to send. */
static void flush_dirty(struct loop_source *source)
{
	struct worker *worker = container_of(source, struct worker, source);

	if (!list_is_empty(&worker->dirty))
		flush_conns(worker);
}

static void *run(void *arg)
{
	struct worker *worker = arg;
	char name[16];

	snprintf(name, sizeof(name), "worker-%u", worker->index);
	pthread_setname_np(pthread_self(), name);
	loop_run(&worker->loop);
	return NULL;
}

/* Polling costs the others' time where there is only one CPU. */
static uint64_t spin_ns(void)
{
	return cpus_usable() > 1 ? SPIN_NS : 0;
}

int worker_new(struct volume *volume, struct loop *control, unsigned index,
	       struct worker **ret_worker)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int r;

	if (!worker)
		return -ENOMEM;
	worker->index = index;
	worker->control = control;
	list_init(&worker->conns);
	list_init(&worker->dirty);
	list_init(&worker->node);
	r = loop_init(&worker->loop, spin_ns(), NULL);
	if (r < 0)
		goto out_free;
	worker->source = (struct loop_source){.poll = poll_nothing, .flush = flush_dirty};
	loop_source_add(&worker->loop, &worker->source);
	/* The thread first: it can be ended at once, a queue cannot. */
	r = -pthread_create(&worker->thread, NULL, run, worker);
	if (r < 0)
		goto out_deinit_loop;
	r = volume_queue_add(volume, &worker->loop, &worker->queue);
	if (r < 0)
		goto out_join;
	*ret_worker = worker;
	return 0;

out_join:
	loop_stop(&worker->loop);
	pthread_join(worker->thread, NULL);
out_deinit_loop:
	loop_source_remove(&worker->source);
	loop_deinit(&worker->loop);
out_free:
	free(worker);
	return r;
}

void worker_free(struct worker *worker)
{
	check(!worker->n_assigned);
	loop_stop(&worker->loop);
	pthread_join(worker->thread, NULL);
	loop_source_remove(&worker->source);
	loop_deinit(&worker->loop);
	free(worker);
}

/* The target is back: what clients that are gone have left behind is not sent. */
static void look_at_conns(void *context)
{
	struct worker *worker = context;

	list_for_each_safe (node, &worker->conns)
		gate_look(list_entry(node, struct nbd_conn, node));
}

static void on_conn_arrived(struct loop_msg *msg)
{
	struct nbd_conn *conn = container_of(msg, struct nbd_conn, msg);

	list_add_tail(&conn->worker->conns, &conn->node);
	conn->worker->n_conns++;
	volume_io_set_before_held(conn->worker->queue, look_at_conns, conn->worker);
	nbd_conn_start(conn);
}

void worker_add_conn(struct worker *worker, struct nbd_conn *conn)
{
	worker->n_assigned++;
	conn->worker = worker;
	conn->msg.run = on_conn_arrived;
	loop_send(&worker->loop, &conn->msg);
}

static void on_conn_returned(struct loop_msg *msg)
{
	struct nbd_conn *conn = container_of(msg, struct nbd_conn, msg);
	struct worker *worker = conn->worker;

	worker->n_assigned--;
	worker->on_conn_closed(worker, conn);
}

void worker_return_conn(struct worker *worker, struct nbd_conn *conn)
{
	list_remove(&conn->node);
	list_remove(&conn->dirty);
	worker->n_conns--;
	gate_conn_gone(worker, conn);
	conn->msg.run = on_conn_returned;
	loop_send(worker->control, &conn->msg);
}

static void on_stop(struct loop_msg *msg)
{
	struct worker *worker = container_of(msg, struct worker, stop_msg);

	list_for_each_safe (node, &worker->conns) {
		struct nbd_conn *conn = list_entry(node, struct nbd_conn, node);

		if (!conn->is_kernel) /* its own end with the device, or by worker_drain_kernel */
			nbd_conn_stop(conn);
	}
}

void worker_stop_conns(struct worker *worker)
{
	worker->stop_msg.run = on_stop;
	loop_send(&worker->loop, &worker->stop_msg);
}

static void on_drain(struct loop_msg *msg)
{
	struct worker *worker = container_of(msg, struct worker, drain_msg);

	list_for_each_safe (node, &worker->conns) {
		struct nbd_conn *conn = list_entry(node, struct nbd_conn, node);

		if (conn->is_kernel)
			nbd_conn_drain(conn);
	}
}

void worker_drain_kernel(struct worker *worker)
{
	worker->drain_msg.run = on_drain;
	loop_send(&worker->loop, &worker->drain_msg);
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
	volume_io_submit(worker->queue, &worker->flush_io);
}

void worker_flush_volume(struct worker *worker, void (*flushed)(struct worker *, int error))
{
	worker->on_flushed = flushed;
	worker->flush_msg.run = on_flush;
	loop_send(&worker->loop, &worker->flush_msg);
}

void worker_mark_dirty(struct worker *worker, struct nbd_conn *conn)
{
	if (list_is_empty(&conn->dirty))
		list_add_tail(&worker->dirty, &conn->dirty);
}

uint64_t worker_share(const struct worker *worker, const struct nbd_export *export)
{
	uint64_t share = export->slab_bytes / (worker->n_conns + 1);

	if (worker->n_conns == 1)
		share = export->slab_bytes / 4 * 3;
	return MAX(share, export->max_io_bytes);
}
