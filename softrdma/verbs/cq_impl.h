/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues and shared receive queues from inside: see sr_cq.h and srq.h. */
#pragma once

#include "softrdma/verbs/context.h"

struct sr_xrcd;

/* A completion channel: an eventfd that counts raised events of its CQs. */
struct sr_chan {
	struct ibv_comp_channel ib;
	uint64_t serial;
	pthread_mutex_t lock; /* guards cqs and the counts of delivered events */
	struct sr_cq *cqs;    /* the next one to be looked at comes first */
};

struct sr_cq {
	struct ibv_cq_ex ib;
	uint32_t slot;
	struct seg_cq *s;
	struct seg_cqe *ring; /* s->ring in this process' mapping */
	uint32_t size;
	pthread_mutex_t poll; /* consumers; taken before the producers' lock */
	struct sr_chan *chan;
	struct sr_pd *domain; /* the parent domain that it is in, or NULL */
	struct sr_cq *next_in_chan;
	unsigned delivered;	  /* events that the application fetched */
	unsigned async_delivered; /* guarded by the context's lock */
	_Atomic uint32_t users;
	struct ibv_wc now; /* the current entry of start_poll/next_poll */
	uint64_t sr_now_ns;
};

/* From the handle that the program has to our object around it. */
static inline struct sr_cq *sr_to_cq(struct ibv_cq *c)
{
	return (struct sr_cq *)(void *)c; /* ibv_cq_ex begins like ibv_cq */
}

struct sr_srq {
	struct ibv_srq ib;
	uint32_t slot;
	struct seg_srq *s;
	uint32_t max_wr, max_sge;
	size_t ring_bytes, order_bytes;
	pthread_mutex_t lock; /* guards posting and the stack of free rqes */
	uint32_t *free;	      /* owned */
	uint32_t n_free;
	unsigned async_delivered; /* guarded by the context's lock */
	_Atomic uint32_t users;
	struct sr_cq *cq; /* XRC, and the next too; NULL otherwise */
	struct sr_xrcd *xrcd;
};

/* From the handle that the program has to our object around it. */
static inline struct sr_srq *sr_to_srq(struct ibv_srq *s)
{
	return container_of(s, struct sr_srq, ib);
}
