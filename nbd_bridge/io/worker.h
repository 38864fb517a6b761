/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread with its event loop, its queue of the volume, and the connections that live on
 * it. */
#pragma once

#include <pthread.h>

#include "base/counter.h"
#include "base/loop.h"
#include "nbd_bridge/io/gate.h"
#include "nbd_bridge/io/nbd_conn.h"

/* Counted by the worker, read by anybody (base/counter.h). */
struct worker_stats {
	uint64_t n_reads, n_read_bytes;
	uint64_t n_writes, n_written_bytes;
	uint64_t n_others, n_errors, n_rmw;
	uint64_t n_running;
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
	struct loop_msg stop_msg, drain_msg, flush_msg, flushed_msg;
	void (*on_flushed)(struct worker *worker, int error);

	/* Thread: its own */
	struct loop loop;
	struct volume_queue *queue;
	struct list conns;
	struct list dirty;
	struct loop_source source;
	unsigned n_conns;
	struct volume_io flush_io;
	int flush_error;

	/* Thread: any */
	struct worker_stats stats;
	struct gate_worker gate;
};

/* Control thread: starts the thread and adds the queue. 0 or -errno. */
int worker_new(struct volume *volume, struct loop *control, unsigned index,
	       struct worker **ret_worker);
/* Control thread: its connections are gone, its queue is removed. Joins the thread. */
void worker_free(struct worker *worker);
/* Control thread. */
void worker_add_conn(struct worker *worker, struct nbd_conn *conn);
/* Control thread: every client's connection finishes what is in flight and closes. */
void worker_stop_conns(struct worker *worker);
/* Control thread: the kernel's connections do. What they have not read yet is not refused: the kernel
 * sends it again. */
void worker_drain_kernel(struct worker *worker);
/* Control thread: flushes the volume, then on_flushed on the control loop. One at a time.
 */
void worker_flush_volume(struct worker *worker, void (*on_flushed)(struct worker *, int error));

/* Worker thread. */
void worker_mark_dirty(struct worker *worker, struct nbd_conn *conn);
/* How much registered memory one connection may hold: nobody, not even one that never
 * reads its replies, keeps the others from theirs. */
uint64_t worker_share(const struct worker *worker, const struct nbd_export *export);
/* The connection is done; it goes back to control. */
void worker_return_conn(struct worker *worker, struct nbd_conn *conn);
