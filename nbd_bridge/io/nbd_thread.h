/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the connections of one worker: its loop, its queue of the volume, the list of those
 * that have something to send. It is the worker's lower half: connections know this, not the worker
 * (worker.h), which owns it and outlives them.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/counter.h"
#include "base/list.h"
#include "base/loop.h"
#include "initiator/control/volume.h"

#define NBD_RECLAIM_NS (250 * NSEC_PER_MSEC)

/* Written by the worker's thread, read by any (base/counter.h). */
struct nbd_stats {
	uint64_t n_reads, n_read_bytes;
	uint64_t n_writes, n_written_bytes;
	uint64_t n_others, n_errors, n_rmw;
	uint64_t n_running;
	uint64_t n_copied_out; /* parts whose client stood still while others waited for memory */
};

struct nbd_thread {
	/* Thread: its own */
	struct loop loop;
	struct volume_queue *queue; /* borrowed: the volume's */
	struct list conns;	    /* of struct nbd_conn */
	struct list dirty;	    /* those with output, flushed at the end of the turn */
	unsigned n_conns;
	uint64_t share_bytes;	   /* of the slab, for each connection: nbd_conn_share_out */
	struct loop_timer reclaim; /* runs while a connection waits for a buffer (nbd_reclaim.h) */

	/* Thread: any; written by control */
	_Atomic uint64_t open_up_to; /* the gate is open for tickets up to this one (gate.h) */

	/* Thread: any */
	struct nbd_stats stats;
};

/* Any thread. May a connection with this ticket begin its transmission? */
static inline bool nbd_thread_admits(struct nbd_thread *thread, uint64_t ticket)
{
	return ticket <= atomic_load(&thread->open_up_to);
}
