/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reliable-connected queue pair. Work requests are queued into a chain and posted
 * together at the end of the loop's turn (or by qp_flush), in one call. Send-queue slots
 * are counted before anything is queued: who has no slot waits, and a post never fails
 * for lack of room.
 *
 * Signalling is the queue pair's own affair: it asks for a completion at the end of a chain
 * in which somebody needs one, and at least every quarter of the queue. Completions come in
 * order, so one completion proves all work requests before it: done is called for each of
 * them, always, exactly once.
 *
 * Life: init (control) -> attach (owner loop; receives posted) -> [CM connects it] ->
 * live -> qp_drain (owner loop): the queue pair goes to the error state, everything
 * posted comes back -> on_drained -> detach, deinit (control).
 */
#pragma once

#include "transport/cq.h"
#include "transport/recv_ring.h"

struct chain;
struct ibv_qp;
struct rdma_cm_id;
struct window;

enum {
	QP_SGE_MAX = 2,
	QP_INLINE_MAX = 64, /* worth asking for; qp->max_inline is what came */
};

struct qp_config {
	struct cq *cq;
	const struct domain *domain;
	struct recv_ring *shared_ring; /* NULL: qp_init makes an own one */
	unsigned n_recv;
	uint32_t recv_capsule_bytes, recv_data_bytes;
	unsigned send_depth;   /* slots; clamped to the device's limit */
	unsigned n_sges;       /* pieces of memory that a SEND may have; 1 to QP_SGE_MAX */
	unsigned inline_bytes; /* longest SEND that goes inline; at most QP_INLINE_MAX */
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
	unsigned n_posted;     /* slots; queued but unflushed ones are included */
	unsigned n_settled;    /* from the oldest on: over, but for READs among them */
	unsigned n_unposted;   /* the last of posted, which the device never got */
	unsigned n_unsignaled; /* since the last signaled one */
	unsigned signal_every;
	bool wants_signal;	     /* of the chain: somebody needs a completion of its last one */
	unsigned max_reads, n_reads; /* RDMA READ credits (ORD, of the CM event) */
	struct chain *chain;	     /* lent by the cq while something is queued; else NULL */
	unsigned n_chain;
	bool has_ahead;	   /* behind the chain is what the next SEND takes along */
	struct list dirty; /* in cq->dirty while the chain is not empty */
	bool is_attached;
	struct list credited; /* in cq->credited when slots came back */
	bool is_broken;	      /* a work request failed, or draining: nothing is posted */
	bool is_draining, has_drained;
	struct work ahead; /* for WRITEs and binds, which have no work of their own */
	struct work drain_marker;
	struct completion cause; /* what broke it */
	struct loop_call unposted_call, broken_call, drained_call;
	struct loop_timer quiet; /* while draining */
	unsigned hold;		 /* enum qp_hold; while QP_RELEASING verbs is control's */
	unsigned n_lost, n_lost_receives;
	struct loop_msg release_msg, released_msg;
	/* All three from the loop's turn, never from inside a call of the owner's. */
	void (*on_broken)(struct qp *qp, const struct completion *c); /* first error, once */
	void (*on_drained)(struct qp *qp);
	/* Slots or READ credits came back. At most once a batch. May be NULL. */
	void (*on_credit)(struct qp *qp);
	void *context; /* the owner's */
};

/* Control. Makes the queue pair on the cm id, not yet connected; reserves cq entries. */
int qp_init(struct qp *qp, struct rdma_cm_id *id, const struct qp_config *config);
/* Owner loop. The callbacks, and ring->on_recv of an own ring, are set. Posts own
 * receives. */
int qp_attach(struct qp *qp);

/* Nothing is on its way whose end somebody wanted to know soon. */
static inline bool qp_is_quiet(const struct qp *qp)
{
	return qp->n_posted == qp->n_unsignaled && !qp->wants_signal;
}

/* Owner loop. Free send-queue slots; one is kept back for the drain marker. */
static inline unsigned qp_n_free(const struct qp *qp)
{
	return qp->depth - 1 - qp->n_posted;
}

static inline bool qp_has_read_credit(const struct qp *qp)
{
	return qp->n_reads < qp->max_reads;
}

enum {
	QP_SIGNALED = 1 << 0,	/* done is wanted soon, not only with a later completion */
	QP_INLINE = 1 << 1,	/* copied at qp_flush time at the latest; <= qp->max_inline */
	QP_INVALIDATE = 1 << 2, /* SEND only: with remote invalidate of rkey */
};
/*
 * Owner loop. Each takes one slot (the caller saw qp_n_free) and the work until done. On
 * a broken queue pair they complete with a flush error, from the loop's next turn, never
 * from inside. The memory belongs to the device until done.
 */
void qp_send(struct qp *qp, struct work *work, const struct sge *sges, unsigned n_sges,
	     unsigned flags, uint32_t invalidate_rkey);
/* Data ahead of the SEND that is queued next: a slot, but no work of its own. It is over, and its
 * memory free, when that SEND's work is done. */
void qp_write(struct qp *qp, struct sge sge, uint64_t remote_addr, uint32_t rkey);
/* Binds a window that is not bound to a piece of mr (MR_WINDOWS), ahead of the SEND that is queued
 * next, like qp_write. access: MR_REMOTE_READ or MR_REMOTE_WRITE. Returns the key for that SEND. */
uint32_t qp_bind(struct qp *qp, struct window *window, const struct mr *mr, void *addr,
		 uint32_t length, enum mr_access access);
/* Takes the window's key back; it is of no use to the peer when the work is done. */
void qp_invalidate(struct qp *qp, struct work *work, const struct window *window);
/* Takes a READ credit too. Always signaled. */
void qp_read(struct qp *qp, struct work *work, struct sge sge, uint64_t remote_addr, uint32_t rkey);
/* Posts the chain now. The loop's turn does it anyway. */
void qp_flush(struct qp *qp);

/* Owner loop, once. Moves the queue pair to the error state; on_drained follows, never from inside,
 * when all work requests and receives of an own ring are back. After 2 s of silence control
 * destroys the queue pair, which ends the device's use of them; the rest comes back flushed. */
void qp_drain(struct qp *qp);
/* Owner loop, after on_drained. */
void qp_detach(struct qp *qp);
/* Control, after qp_detach (or if never attached). Accepts a zeroed one. */
void qp_deinit(struct qp *qp);
