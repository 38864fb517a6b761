/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions and windows, and the key checks of the data path.
 *
 * Each region and window is an entry of the table in the owner's segment. Application threads
 * create and destroy them; any thread of any process checks keys. The memory stays the
 * application's: deregistration returns only after the last copy by that key is over. Public calls
 * return NULL with errno, or an errno value.
 */
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

/* Invalidates a bound type 2 window, as SEND_WITH_INV and LOCAL_INV do. */
bool sr_mr_invalidate(struct seg *s, uint32_t rkey, uint32_t pd, uint32_t qpn);
/* Executes a bind work request on this process' table. */
enum ibv_wc_status sr_mr_bind(struct ibv_mw *mw, uint32_t rkey, uint32_t qpn,
			      const struct ibv_mw_bind_info *info);

/* ibv_alloc_mw, ibv_dealloc_mw and ibv_bind_mw. Any thread; errors as in the manual pages. */
struct ibv_mw *sr_mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type);
int sr_mw_dealloc(struct ibv_mw *mw);
