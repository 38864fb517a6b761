/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive buffers: registered capsules posted to a shared receive queue or to one queue
 * pair's own. Each has room for a capsule of fixed size and, in a separate page-aligned
 * area, in-capsule data (the second SGE of the receive), so that O_DIRECT can write it as
 * it lies.
 *
 * A ring is made of parts, each with its own memory: a shared one grows with the queue pairs
 * that use it, so that few commands go round in little memory, which stays in the cache.
 */
#pragma once

#include "transport/cq.h"

struct ibv_srq;
struct ibv_recv_wr;
struct ibv_sge;
struct recv_ring;

/* Receives that were made together. */
struct recv_part {
	/* Thread: created by control; recvs are the owner loop's of the cq from then on */
	struct recv_ring *ring;
	struct list node; /* ring->parts */
	unsigned n;
	void *memory; /* owned mapping */
	size_t memory_bytes;
	struct mr mr;
	struct recv *recvs;	 /* owned */
	struct ibv_recv_wr *wrs; /* owned: one a receive, built once */
	struct ibv_sge *sges;	 /* owned */
	struct loop_msg msg;	 /* for whoever sends it to the owner loop */
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
	unsigned n_posted;	   /* in the device's hands */
	struct ibv_recv_wr *chain; /* given back, not yet posted */
	unsigned n_chain;
	struct list dirty;
	/* A capsule of c->byte_len bytes arrived on qp. The receiver keeps it until
	 * recv_give. Failed and flushed receives never come here (a failure breaks its
	 * queue pair). */
	void (*on_recv)(struct recv *recv, struct qp *qp, const struct completion *c);
};

/* Control. A ring without receives, with room for n_max. shared: makes a shared receive
 * queue. 0 or -errno. */
int recv_ring_init(struct recv_ring *ring, struct cq *cq, const struct domain *domain, bool shared,
		   unsigned n_max, uint32_t capsule_bytes, uint32_t data_bytes);
/* Control. Makes n receives more, n_max in all at most, and reserves as many entries of the
 * cq; their part is the ring's. 0 or -errno. */
int recv_ring_add(struct recv_ring *ring, const struct domain *domain, unsigned n,
		  struct recv_part **ret_part);
/* Owner loop, once, after on_recv was set (and, for an own ring, its qp was made): posts
 * them. 0 or -EIO: not all. */
int recv_part_post(struct recv_part *part);
/* Owner loop: posts the buffer again, at the end of the turn or when the chain is full.
 */
void recv_give(struct recv *recv);
/* When nothing of it is posted any more (own: queue pair drained; shared: all queue pairs
 * gone). */
void recv_ring_deinit(struct recv_ring *ring);
