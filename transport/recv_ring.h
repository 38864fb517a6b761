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

#include "transport/qp_impl.h"

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
