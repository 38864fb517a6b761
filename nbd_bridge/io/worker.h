/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread with its event loop, its queue of the volume, and the connections that live on it. Made
 * and freed by control, which owns each connection before worker_add_conn and after on_conn_closed
 * or on_conn_left.
 */
#pragma once

#include <pthread.h>

#include "base/loop.h"
#include "nbd_bridge/io/gate.h"
#include "nbd_bridge/io/nbd_conn.h"
#include "nbd_bridge/io/nbd_thread.h"

enum {
	WORKER_MOVES_MAX = 16, /* connections that one message asks to leave */
};

/* The order of the volume process to the connections. */
enum worker_phase {
	WORKER_SERVING,
	WORKER_STOPPING, /* clients' connections end */
	WORKER_DRAINING, /* the kernel's, too */
};

/* Asks connections to leave; on its way to the worker and back. */
struct worker_move {
	struct loop_msg msg;
	bool is_sent; /* control */
	unsigned n, ids[WORKER_MOVES_MAX];
};

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
	/* On the control loop: it is open, and wants another worker. */
	void (*on_conn_left)(struct worker *worker, struct nbd_conn *conn);
	/* On the control loop: connections share it, and it has little time left. NULL: nothing
	 * can be done about it. Set before the first connection is added. */
	void (*on_busy)(struct worker *worker);
	struct worker_move move;
	uint64_t looked_busy_ns; /* of loop.busy_ns, at the last look */
	unsigned load;		 /* thousandths of the time before the last look */
	struct loop_msg stop_msg, drain_msg, flush_msg, flushed_msg;
	void (*on_flushed)(struct worker *worker, int error);

	/* Thread: its own */
	struct nbd_thread nbd; /* what its connections know of it */
	struct loop_source source;
	enum worker_phase phase; /* it only grows */
	struct volume_io flush_io;
	int flush_error;
	struct loop_timer watch; /* runs for a window of time, from some output on */
	uint64_t watched_ns, watched_busy_ns;

	/* Thread: any */
	struct gate_worker gate;
	struct loop_msg busy_msg;
	_Atomic bool is_busy_sent; /* cleared by control */
};

/* Control thread: starts the thread and adds the queue. spin: spin.h. 0 or -errno. */
int worker_new(struct volume *volume, struct loop *control, uint64_t spin, unsigned index,
	       struct worker **ret_worker);
/* Control thread: its connections are gone, its queue is removed. Joins the thread, frees the
 * worker. */
void worker_free(struct worker *worker);
/* Control thread: hands conn over, a new one or one that has left another worker; on_conn_closed or
 * on_conn_left gives it back. */
void worker_add_conn(struct worker *worker, struct nbd_conn *conn);
/* Control thread: the connections with these ids (at most WORKER_MOVES_MAX) leave, each as soon as
 * it has no request in flight: on_conn_left. Those that end come back by on_conn_closed. False: the
 * worker has not yet taken the last such message; nothing happens. */
bool worker_ask_to_leave(struct worker *worker, const unsigned ids[], unsigned n);
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
