/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues and channels, the owner's side; fabric/completion.h is the producers' side.
 *
 * Application threads poll, arm and destroy; the helper thread handles attention and dead peers.
 * The application owns channel and queue and frees them through the verbs calls. Consumers hold
 * `poll`; the entries themselves are in the segment, guarded by its lock. Public calls return NULL
 * with errno, or an errno value; sr_cq_poll() returns the number of entries.
 */
#pragma once

#include "softrdma/verbs/context.h"

struct sr_peer;

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

/* Waits until no thread delivers by a key that it read before. */
void sr_cq_quiesce_all(void);
/* A peer died: takes over its locks and raises the events that it may have left out. */
void sr_cq_peer_died(void);

int sr_cq_req_notify(struct ibv_cq *ib, int solicited_only);
struct ibv_cq_ex *sr_cq_create_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr);
/* Helper: the CQ's attention bit is set. */
void sr_cq_attention(uint32_t slot);
