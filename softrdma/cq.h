/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "dev.h"

struct peer;

/* A completion channel: an eventfd that counts raised events of its CQs. */
struct chan {
	struct ibv_comp_channel ib;
	uint64_t serial;
	pthread_mutex_t lock; /* guards cqs and the counts of delivered events */
	struct cq *cqs;	      /* in the order to be looked at */
};

struct cq {
	struct ibv_cq_ex ib;
	uint32_t slot;
	struct seg_cq *s;
	struct seg_cqe *ring; /* s->ring in our mapping */
	uint32_t size;
	pthread_mutex_t poll; /* consumers; taken before the producers' lock */
	struct chan *chan;
	struct cq *next_in_chan;
	unsigned delivered;	  /* events got by the application */
	unsigned async_delivered; /* guarded by the context's lock */
	_Atomic uint32_t users;
	bool polling;	   /* between start_poll and end_poll; guarded by poll */
	struct ibv_wc now; /* the entry that start_poll/next_poll stand on */
	uint64_t now_ns;
};

static inline struct cq *to_cq(struct ibv_cq *c)
{
	return (struct cq *)(void *)c; /* ibv_cq_ex begins like ibv_cq */
}

/*
 * Producing an entry on anybody's CQ: fill what begin returns, then end it. NULL:
 * overrun; the owner's helper has been told and the entry is lost.
 */
struct seg_cqe *cq_push_begin(struct peer *owner, uint32_t slot);
void cq_push_end(struct peer *owner, uint32_t slot, const struct seg_cqe *e);

/* An error entry: only wr_id, status, qp_num and vendor_err mean anything. */
void cqe_error(struct seg_cqe *e, uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status);

/* Is there an entry, not yet polled, for this receive? For repairs. */
bool cq_holds_recv(struct seg *s, uint32_t cq_slot, uint32_t qp_slot, uint64_t seq);
/* A QP goes or is reset: its entries vanish (receives go back to their SRQ). */
void cq_drop_qp(struct cq *cq, uint32_t qp_slot);
/* Wait until nobody delivers by a key seen before. */
void cq_quiesce_all(void);
/* A peer died: take over its locks, raise the events it may have owed. */
void cq_peer_died(void);

/* Takes the next entry; called with cq->poll held. */
bool cq_pop(struct cq *cq, struct ibv_wc *wc);
void cq_ex_init(struct cq *cq);

int cq_poll(struct ibv_cq *ib, int n, struct ibv_wc *wc);
int cq_req_notify(struct ibv_cq *ib, int solicited_only);
struct ibv_cq_ex *cq_create_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr);
/* Helper: the CQ's attention bit is set. */
void cq_attention(uint32_t slot);
