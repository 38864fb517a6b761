/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive buffers: registered memory, posted to a shared receive queue or to that of one queue
 * pair. Each has room for a capsule of fixed size. In-capsule data (the second SGE of the receive)
 * goes to a separate page-aligned area, so that O_DIRECT can write it without a copy.
 *
 * A ring consists of parts, each with its own memory. A shared ring grows with its queue pairs, so
 * a small load reuses little memory, which stays in the cache.
 *
 * Threads: control makes rings and parts and destroys them; the owner loop of the completion queue
 * posts receives and gets completions.
 */
#pragma once

#include "base/arena_memory.h"
#include "transport/cq.h"

struct ibv_srq;
struct ibv_recv_wr;
struct ibv_sge;
struct recv_ring;

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

/* Control. Makes a ring without receives, with room for n_max. shared: with a shared receive
 * queue. 0 or -errno. */
int recv_ring_init(struct recv_ring *ring, struct cq *cq, const struct domain *domain, bool shared,
		   unsigned n_max, uint32_t capsule_bytes, uint32_t data_bytes);
/* Control. Makes n more receives, at most n_max in all, and reserves as many entries of the cq. The
 * ring owns the part. 0 or -errno. */
int recv_ring_add(struct recv_ring *ring, const struct domain *domain, unsigned n,
		  struct recv_part **ret_part);
/* Owner loop, once, after on_recv is set and, for an own ring, its qp is made: posts the receives.
 * 0; -EIO: not all are posted. */
int recv_part_post(struct recv_part *part);
/* Owner loop: posts the buffer again, at the end of the turn or when the chain is full. */
void recv_give(struct recv *recv);
/* Owner loop: posts now what was given back. */
void recv_flush(struct recv_ring *ring);
/* For cq_poll.c: a receive completed. qp is NULL when the queue pair is not attached any more.
 * False: qp, if any, gets no capsule, because it drains or c is a failure. */
bool recv_complete(struct work *work, struct qp *qp, const struct completion *c);
/* Control, when no receive is posted any more (own ring: after the drain; shared: after all queue
 * pairs). Accepts a zeroed one. */
void recv_ring_deinit(struct recv_ring *ring);
