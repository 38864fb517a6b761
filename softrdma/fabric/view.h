/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory that this process has mapped: the peer's side of fabric/share.h, and of this
 * process itself, which so needs not trust the program to keep its mapping.
 *
 * The thread that executes a work request opens a view the first time, and uses it only under the
 * sq_lock of its queue pair and after it has checked the key. A view whose share has ended is
 * unmapped by sr_view_sweep, after each of these locks was free once. A view that cannot be opened
 * (no free descriptor, an unsealed file) is none: the copy goes by process_vm.
 */
#pragma once

#include "softrdma/fabric/peer.h"
#include "softrdma/process/api.h"

/* Guarded by the peer's lock, but the data path reads it; serial is written last. */
struct sr_view {
	_Atomic uint64_t serial; /* of the share that it shows; 0: none */
	uint8_t *_Atomic base;	 /* owned mapping; NULL with a serial: it could not be opened */
	_Atomic uint64_t n_bytes;
	_Atomic bool is_writable;
};

/* SEG_MAX_SHARE of them, without pages until used. NULL: no memory. */
struct sr_view *sr_views_new(void);
/* Unmaps them all. No thread uses them. Accepts NULL. */
void sr_views_free(struct sr_view *views);
/* Opens or widens a view. False: it cannot be used for this. The data path's slow half. */
bool sr_view_open(struct sr_peer *p, uint32_t slot, bool to_write);
/* Any thread. Unmaps the views whose shares have ended, of all peers and of this process; quiesce
 * waits until each thread that may use one has left its queue pair's sq_lock. */
void sr_view_sweep(void (*quiesce)(void));
/* The part of sr_view_sweep for one peer. Returns how many are to be unmapped, or were. */
unsigned sr_view_detach(struct sr_peer *p);
unsigned sr_view_unmap(struct sr_peer *p);

/*
 * Where bytes [addr, addr + len) of a region or window of p are mapped here, addr as in work
 * requests; NULL: nowhere. The caller has checked the key; the bounds here are those of the
 * mapping, whatever the table says.
 */
static inline uint8_t *sr_view_at(struct sr_peer *p, const struct seg_mr *m, uint64_t addr,
				  uint64_t len, bool to_write)
{
	uint32_t slot = (atomic_load_explicit(&m->share, memory_order_relaxed) - 1);
	uint64_t serial, at, n_bytes;
	const struct sr_view *v;

	if (slot >= SEG_MAX_SHARE)
		return NULL;
	v = &p->views[slot];
	serial = atomic_load_explicit(&p->seg->share[slot].serial, memory_order_acquire);
	if (!serial)
		return NULL;
	if (UNLIKELY(atomic_load_explicit(&v->serial, memory_order_acquire) != serial ||
		     (to_write && !atomic_load_explicit(&v->is_writable, memory_order_acquire))) &&
	    !sr_view_open(p, slot, to_write))
		return NULL;
	at = m->share_at + (addr - m->iova);
	n_bytes = atomic_load_explicit(&v->n_bytes, memory_order_relaxed);
	if (at > n_bytes || len > n_bytes - at)
		return NULL;
	return atomic_load_explicit(&v->base, memory_order_relaxed) + at;
}
