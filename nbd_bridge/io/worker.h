/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread with its event loop, its queue of the volume, and the connections that live on it. Made
 * and freed by control, which owns each connection before worker_add_conn and after on_conn_closed.
 */
#pragma once

#include <pthread.h>

#include "base/loop.h"
#include "nbd_bridge/io/gate.h"
#include "nbd_bridge/io/nbd_conn.h"
#include "nbd_bridge/io/nbd_thread.h"

struct worker {
	/* Thread: control */
	unsigned index;
	unsigned n_assigned; /* connections given and not yet handed back */
	pthread_t thread;
	struct list node;
	struct loop *control;
	void *owner;
	/* On the control loop: the connection's last message; the owner frees it. */
	void (*on_conn_closed)(struct worker *worker, struct nbd_conn *conn);
	struct loop_msg stop_msg, drain_msg, flush_msg, flushed_msg;
	void (*on_flushed)(struct worker *worker, int error);

	/* Thread: its own */
	struct nbd_thread nbd; /* what its connections know of it */
	struct loop_source source;
	struct volume_io flush_io;
	int flush_error;

	/* Thread: any */
	struct gate_worker gate;
};

/* Control thread: starts the thread and adds the queue. spin: spin.h. 0 or -errno. */
int worker_new(struct volume *volume, struct loop *control, uint64_t spin, unsigned index,
	       struct worker **ret_worker);
/* Control thread: its connections are gone, its queue is removed. Joins the thread, frees the
 * worker. */
void worker_free(struct worker *worker);
/* Control thread: hands conn over; on_conn_closed gives it back. */
void worker_add_conn(struct worker *worker, struct nbd_conn *conn);
/* Control thread: every client's connection finishes what is in flight and closes. */
void worker_stop_conns(struct worker *worker);
/* Control thread: the kernel's connections do. Requests they have not read yet are not refused: the
 * kernel sends them again. */
void worker_drain_kernel(struct worker *worker);
/* Control thread: flushes the volume, then on_flushed on the control loop. One at a time. */
void worker_flush_volume(struct worker *worker, void (*on_flushed)(struct worker *, int error));

/* Any thread: the worker that conn was added to. */
static inline struct worker *worker_of_conn(const struct nbd_conn *conn)
{
	return container_of(conn->thread, struct worker, nbd);
}
