/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of workers of a volume process: which of them serves a connection. Thread: control.
 */
#pragma once

#include "base/cpus.h"
#include "base/loop.h"
#include "nbd_bridge/control/balance.h"
#include "nbd_bridge/io/gate.h"
#include "nbd_bridge/io/worker.h"

struct pool_config {
	struct loop *loop;     /* control; borrowed, as the volume */
	struct volume *volume; /* live */
	struct list *conns;    /* borrowed: of struct nbd_conn (owned), all there are */
	uint64_t spin;	       /* of the workers: spin.h */
	unsigned n_max;	       /* I/O queues that there may be */
	bool is_fixed;	       /* a worker for each connection, up to n_max; nothing moves */
	void *owner;	       /* of the workers */
	void (*on_conn_closed)(struct worker *worker, struct nbd_conn *conn); /* worker.h */
};

struct pool {
	/* Thread: control */
	struct pool_config config;
	struct list workers; /* owned */
	unsigned n_workers;
	struct gate gate;
	struct balance balance;
	struct cpus_idle idle;
	struct loop_timer look; /* runs while connections may have to move */
	uint64_t period_ns, looked_ns;
	uint64_t n_moves; /* of connections, since the start */
};

/* The list of workers is empty: pool_start was not called, or failed. */
void pool_init(struct pool *pool);
/* Makes the first worker. 0 or -errno. */
int pool_start(struct pool *pool, const struct pool_config *config);
/* Stops looking: nothing moves any more. Accepts one that was not started. */
void pool_stop(struct pool *pool);
/* Frees the workers: their queues are removed. */
void pool_free_workers(struct pool *pool);

/* Takes the connection, which is in config.conns already, to a worker. is_alone: no other is. */
void pool_add(struct pool *pool, struct nbd_conn *conn, bool is_alone);
/* The connections with these ids (at most WORKER_MOVES_MAX), which `from` serves, move to `to`,
 * each as soon as nothing of it is in flight. False: `from` has not yet taken the last such
 * call. */
bool pool_move(struct pool *pool, struct worker *from, struct worker *to, const unsigned ids[],
	       unsigned n);
/* One more worker: 0 or -errno. */
int pool_add_worker(struct pool *pool);
