/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue pair and its receives from inside: see qp.h and recv_ring.h. Each file calls only those
 * below it:
 *
 *   qp         the life of a queue pair; control and the owner loop
 *   cq_poll    takes completions and hands each to qp_post or recv_ring
 *   qp_post    the works of a queue pair: posts them, hands them back in order
 *   recv_ring  receives       chain   chains of work requests
 *   cq         the completion queue: entries, attached queue pairs
 *
 * Thread: the owner loop.
 */
#pragma once

#include "base/arena_memory.h"
#include "transport/cq_impl.h"
#include "transport/qp_state.h"

struct chain;
struct ibv_qp;
struct ibv_recv_wr;
struct ibv_sge;
struct ibv_srq;
struct rdma_cm_id;
struct recv_ring;

enum {
	QP_SGE_MAX = 2,
	QP_INLINE_MAX = 64, /* the size to request; qp->max_inline is the result */
};

/* The receives of one recv_ring_add. */
struct recv_part {
	/* Thread: control makes it; then recvs belong to the owner loop of the cq */
	struct recv_ring *ring;
	struct list node; /* ring->parts */
	unsigned n;
	struct arena_memory memory;
	struct mr mr;
	struct recv *recvs;	 /* owned */
	struct ibv_recv_wr *wrs; /* owned: one for each receive, built once */
	struct ibv_sge *sges;	 /* owned */
	struct loop_msg msg;	 /* for the maker, to send the part to the owner loop */
};

struct recv {
	struct work work;
	struct recv_ring *ring;
	void *capsule;		/* capsule_bytes */
	void *data;		/* data_bytes; NULL when the ring has none */
	struct ibv_recv_wr *wr; /* of its part */
};

struct recv_ring {
	/* Thread: control */
	unsigned n_max; /* room in the receive queue; 0: there is no ring */
	unsigned n_made;
	struct list parts; /* owned: of struct recv_part */
	/* Thread: owner loop of the cq; created by control */
	struct cq *cq;
	struct ibv_srq *srq; /* owned; NULL when it belongs to qp */
	struct qp *qp;	     /* borrowed: the one queue pair, when it is not shared */
	uint32_t capsule_bytes, data_bytes;
	unsigned n_posted;	   /* posted to the device */
	struct ibv_recv_wr *chain; /* given back, not yet posted */
	unsigned n_chain;
	struct list dirty;
	/* A capsule of c->byte_len bytes arrived on qp. The callee owns recv until recv_give. Not
	 * called for failed and flushed receives (a failure breaks the queue pair). */
	void (*on_recv)(struct recv *recv, struct qp *qp, const struct completion *c);
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
	struct work settler, drain_marker;
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

/* Nothing is outstanding in the send queue. Requests without QP_SIGNALED stay outstanding until a
 * later completion, or qp_settle. */
static inline bool qp_is_quiet(const struct qp *qp)
{
	return qp->n_posted == 0;
}

/* A request is outstanding that was queued with QP_SIGNALED. */
static inline bool qp_has_signaled(const struct qp *qp)
{
	return qp->n_posted != qp->n_unsignaled || qp->wants_signal;
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
