/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue pair from inside: see sr_qp.h. */
#pragma once

#include "softrdma/fabric/engine.h"
#include "softrdma/fabric/node.h"
#include "softrdma/process/helper.h"
#include "softrdma/process/timer.h"
#include "softrdma/verbs/cq_impl.h"
#include "softrdma/verbs/wqe.h"

/* The other end as the engine knows it; its fields are the engine's. */
struct sr_end {
	struct sr_peer *_Atomic peer; /* ref; NULL until found. Also read by posters of receives */
	struct seg_qp *remote;
	uint32_t slot;
	struct roce_link *link; /* owned by the RoCE engine; NULL on another one */
};

struct sr_qp {
	struct ibv_qp_ex ib;
	uint32_t slot;
	struct seg_qp *s;
	const struct sr_engine *engine;
	struct sr_cq *send_cq, *recv_cq; /* NULL: XRC's halves lack one, or both */
	struct sr_pd *pd;		 /* NULL: XRC_RECV */
	struct sr_srq *srq;
	struct ibv_qp_cap cap;
	bool signals_all;
	enum ibv_qp_type type;
	uint32_t name; /* seg_qp_name */
	bool is_live;  /* fully created, not being destroyed; guarded by the table lock */
	size_t rq_bytes;
	unsigned async_delivered; /* guarded by the context's lock */

	pthread_mutex_t rq_lock; /* guards posting receives */

	/* Guards all below, and execution. Taken before any QP's shared lock. */
	pthread_mutex_t sq_lock;
	struct ibv_qp_attr attr;
	struct sr_end end;
	void *wqes;		     /* owned ring of struct sr_wqe */
	struct sr_pd *wqes_of;	     /* whose allocator has it; NULL: malloc's */
	struct sr_wqe_extra *extras; /* owned: as many, from the first that needs one on */
	uint32_t wqe_stride, wqe_mask;
	uint64_t head;	 /* next to be posted */
	uint64_t exec;	 /* next to be executed */
	uint64_t owed;	 /* the oldest not yet complete; equals exec without chaos */
	unsigned n_late; /* in stage WQE_LATE */
	struct sr_timer late_timer;
	_Atomic uint64_t freed; /* slots given back by polling */
	enum sr_qp_wait wait;
	uint64_t wait_until; /* 0 = for ever */
	struct sr_timer timer;
	unsigned burst;	   /* READs and atomics in a row that a wire would carry together */
	bool has_drained;  /* LAST_WQE_REACHED has been raised since ERR was entered */
	uint64_t ex_start; /* ibv_wr_*: head at wr_start, and the first error since */
	int ex_error;

	struct sr_xrcd *xrcd; /* XRC_RECV */
	/* Handles of an XRC_RECV queue pair; guarded by the table lock. */
	struct sr_qp *behind; /* this is a handle of sr_qp_open, and no queue pair */
	struct sr_qp *opened; /* the first of those; or the next one */
	bool is_dropped;      /* the program has destroyed the handle that created it */
};

/* From the handle that the program has to our object around it. */
static inline struct sr_qp *sr_to_qp(struct ibv_qp *q)
{
	return container_of(q, struct sr_qp, ib.qp_base);
}

/* Work request i, counted from the creation of the queue pair. The caller holds sq_lock. */
static inline struct sr_wqe *sr_qp_wqe(const struct sr_qp *qp, uint64_t i)
{
	return (struct sr_wqe *)(void *)((char *)qp->wqes + (i & qp->wqe_mask) * qp->wqe_stride);
}

/* The place of w in the ring. */
static inline size_t sr_wqe_slot(const struct sr_qp *qp, const struct sr_wqe *w)
{
	return (size_t)((const char *)w - (const char *)qp->wqes) / qp->wqe_stride;
}

/* The extra part of an atomic or a bind. */
static inline const struct sr_wqe_extra *sr_qp_extra(const struct sr_qp *qp, const struct sr_wqe *w)
{
	return &qp->extras[sr_wqe_slot(qp, w)];
}

/* UD: each work request names its own destination. Any thread. */
static inline bool sr_qp_is_datagram(const struct sr_qp *qp)
{
	return qp->type == IBV_QPT_UD;
}

/* UC: connected, and what does not arrive is lost in silence. Any thread. */
static inline bool sr_qp_is_lossy(const struct sr_qp *qp)
{
	return qp->type == IBV_QPT_UC;
}

/* XRC: a queue pair sends, or it receives. Any thread. */
static inline bool sr_qp_is_xrc_send(const struct sr_qp *qp)
{
	return qp->type == IBV_QPT_XRC_SEND;
}

/* As sr_qp_is_xrc_send. */
static inline bool sr_qp_is_xrc_recv(const struct sr_qp *qp)
{
	return qp->type == IBV_QPT_XRC_RECV;
}

/* Any thread; also processes that are connected to it see this state. */
static inline enum ibv_qp_state sr_qp_state(const struct sr_qp *qp)
{
	return (enum ibv_qp_state)atomic_load_explicit(&qp->s->state, memory_order_acquire);
}
