/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reliable-connected queue pair. Work requests are queued in a chain and posted in one call, at
 * the end of the loop's turn or by qp_flush. The caller checks qp_n_free first and waits for
 * on_credit if there is no slot, so a post never fails for lack of room.
 *
 * The queue pair decides which requests are signaled: the last of a chain in which a caller needs
 * a completion, and at least one in each quarter of the queue. Completions arrive in order, so one
 * completes all requests before it; done is called for each of them exactly once.
 *
 * Life: init (control) -> attach (owner loop; posts receives) -> [CM connects it] -> live ->
 * qp_drain (owner loop): it goes to the error state, all posted requests come back -> on_drained
 * -> detach (owner loop) -> deinit (control). enum qp_state has these steps.
 */
#pragma once

#include "transport/cq.h"
#include "transport/qp_state.h"
#include "transport/recv_ring.h"

struct chain;
struct ibv_qp;
struct rdma_cm_id;
struct window;

enum {
	QP_SGE_MAX = 2,
	QP_INLINE_MAX = 64, /* the size to request; qp->max_inline is the result */
};

struct qp_config {
	struct cq *cq;
	const struct domain *domain;
	struct recv_ring *shared_ring; /* borrowed; NULL: qp_init makes an own one */
	unsigned n_recv;
	uint32_t recv_capsule_bytes, recv_data_bytes;
	unsigned send_depth;   /* slots; clamped to the device's limit */
	unsigned n_sges;       /* pieces of memory of a SEND, at most; 1 to QP_SGE_MAX */
	unsigned inline_bytes; /* longest inline SEND; at most QP_INLINE_MAX */
};

/* A piece of local registered memory. */
struct sge {
	void *addr;
	uint32_t length;
	uint32_t lkey;
};

struct qp {
	/* Thread: owner loop between attach and detach, control otherwise */
	struct cq *cq;
	struct rdma_cm_id *id; /* borrowed from its cm_conn */
	struct ibv_qp *verbs;
	uint32_t number;
	struct recv_ring *ring;
	struct recv_ring own_ring; /* n_max == 0 when shared */
	struct recv_part *own_part;
	unsigned max_inline, depth;
	struct work **posted;  /* owned: ring of n_ring entries, in posting order, by seq */
	unsigned n_ring;       /* a power of 2, at least depth */
	unsigned head_seq;     /* seq of the oldest one */
	unsigned n_posted;     /* slots, with those queued but not flushed */
	unsigned n_settled;    /* from the oldest on: completed, but for READs among them */
	unsigned n_unposted;   /* the last ones of posted, which the device never got */
	unsigned n_unsignaled; /* since the last signaled one */
	unsigned signal_every;
	bool wants_signal;	     /* the last request of the chain must be signaled */
	unsigned max_reads, n_reads; /* RDMA READ credits (ORD, of the CM event) */
	struct chain *chain;	     /* borrowed from the cq while requests are queued; else NULL */
	unsigned n_chain;
	bool has_ahead;	      /* behind the chain is a WRITE or a bind for the next SEND */
	struct list dirty;    /* in cq->dirty while the chain is not empty */
	struct list credited; /* in cq->credited after slots came back */
	enum qp_state state;
	struct work ahead; /* stands for WRITEs and binds, which have no own work */
	struct work drain_marker;
	struct completion cause; /* the first error */
	struct loop_call unposted_call, broken_call, drained_call;
	struct loop_timer quiet; /* expires when a drain gets no completion */
	enum qp_hold hold;	 /* while QP_RELEASING control owns verbs */
	unsigned n_lost, n_lost_receives;
	struct loop_msg release_msg, released_msg;
	/* The loop calls all three; no function of this header does. */
	void (*on_broken)(struct qp *qp, const struct completion *c); /* first error, once */
	void (*on_drained)(struct qp *qp);
	/* Slots or READ credits came back. At most once a batch. May be NULL. */
	void (*on_credit)(struct qp *qp);
	void *context; /* the owner's */
};

/* Control. Makes the queue pair on the cm id; reserves cq entries. 0 or -errno. */
int qp_init(struct qp *qp, struct rdma_cm_id *id, const struct qp_config *config);
/* Owner loop, after all callbacks are set (and on_recv of an own ring). Posts own receives. */
int qp_attach(struct qp *qp);

/* No request is outstanding that was queued with QP_SIGNALED. */
static inline bool qp_is_quiet(const struct qp *qp)
{
	return qp->n_posted == qp->n_unsignaled && !qp->wants_signal;
}

/* Owner loop. Free send-queue slots; one is reserved for the drain marker. */
static inline unsigned qp_n_free(const struct qp *qp)
{
	return qp->depth - 1 - qp->n_posted;
}

/* Owner loop. One more RDMA READ may be under way: the peer has responder resources left. */
static inline bool qp_has_read_credit(const struct qp *qp)
{
	return qp->n_reads < qp->max_reads;
}

enum {
	QP_SIGNALED = 1 << 0,	/* done at the end of the chain, not with a later completion */
	QP_INLINE = 1 << 1,	/* copied by qp_flush at the latest; at most qp->max_inline */
	QP_INVALIDATE = 1 << 2, /* SEND only: with remote invalidate of rkey */
};

/* Owner loop, once. Moves the queue pair to the error state. on_drained follows, never from
 * inside, when all requests and the receives of an own ring are back. After 2 s without a
 * completion control destroys the queue pair, so that the device ends its use of the rest, which
 * is then flushed. */
void qp_drain(struct qp *qp);
/* Owner loop, after on_drained. */
void qp_detach(struct qp *qp);
/* Control, after qp_detach (or if never attached). Accepts a zeroed one. */
void qp_deinit(struct qp *qp);
