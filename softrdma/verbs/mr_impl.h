/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions and windows from inside, and the key checks of the data path: see mr.h. */
#pragma once

#include "softrdma/fabric/share.h"
#include "softrdma/verbs/context.h"

#define MR_LKEY_BIT 0x80000000u /* so that a local key never works as a remote one */

struct sr_mr {
	struct ibv_mr ib;
	uint32_t index;
	uint32_t access;
	size_t pinned;
	struct sr_shared shared; /* where peers may map it */
	struct sr_mw *windows;	 /* bound to it, also since invalidated; guarded by mr.c's lock */
};

struct sr_mw {
	struct ibv_mw ib;
	uint32_t index;
	struct sr_mr *bound;	   /* guarded by mr.c's lock, as the next two */
	struct sr_mw *next, *prev; /* of the region's windows */
};

/*
 * Whether this key permits `need` in [addr, addr + len). Called under the lock that dereg waits for
 * (the responder's QP lock for remote use, the send or poll lock for local use), so the result
 * holds until that lock is given.
 */
static inline bool sr_mr_allows(struct seg *s, uint32_t key, uint32_t pd, uint64_t addr,
				uint64_t len, uint32_t need, uint64_t *ret_va)
{
	const struct seg_mr *m = &s->mr[key >> 8 & (SEG_MAX_MR - 1)];
	const _Atomic uint32_t *k = key & MR_LKEY_BIT ? &m->lkey : &m->rkey;
	uint64_t off;

	if (!key || atomic_load_explicit(k, memory_order_seq_cst) != key)
		return false;
	off = addr - m->iova;
	*ret_va = m->va + off;
	return m->pd == pd && (m->access & need) == need && off <= m->length &&
	       len <= m->length - off;
}

/* Whether the key is no type 2 window, or one that is bound to this QP. */
static inline bool sr_mr_window_fits(const struct seg *s, uint32_t key, uint32_t qpn)
{
	const struct seg_mr *m = &s->mr[key >> 8 & (SEG_MAX_MR - 1)];

	return m->kind != SEG_MW2 || atomic_load(&m->qpn) == qpn;
}
