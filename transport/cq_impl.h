/* SPDX-License-Identifier: BSD-3-Clause */
/* A completion queue from inside, and what passes through it: see cq.h. */
#pragma once

#include "base/log.h"
#include "base/loop.h"
#include "transport/device.h"

struct chain;
struct ibv_cq;
struct ibv_comp_channel;
struct qp;

/* The outcome of one work request. */
struct completion {
	unsigned status;      /* enum ibv_wc_status; 0 is success */
	uint32_t byte_len;    /* of a receive */
	bool has_invalidated; /* of a receive: the peer's SEND invalidated a key */
	uint32_t invalidated_rkey;
};

/*
 * One posted work request, embedded in its owner, which must not reuse it before done is called.
 * done is called exactly once for each posted work, in posting order of its queue, on the owner
 * loop of the completion queue.
 */
struct work {
	void (*done)(struct work *work, const struct completion *c);
	struct qp *qp;	  /* set by qp_send, qp_read and the like; NULL: a receive */
	bool is_read;	  /* holds a READ credit; set by qp_read */
	bool is_done;	  /* its own completion has arrived */
	uint16_t status;  /* with is_done: enum ibv_wc_status */
	uint16_t n_slots; /* slots that it takes in its send queue */
	unsigned seq;	  /* number of the first slot */
};

/* The chains that queue pairs borrow; chain.h. */
struct chains {
	struct chain *all;  /* owned */
	struct chain *free; /* the free ones among those that were ever used */
	unsigned n_used;
};

struct cq {
	/* Thread: owner loop; control creates and destroys it while the loop does not poll it */
	struct device *device;
	struct loop *loop;
	struct ibv_cq *verbs;
	struct ibv_comp_channel *channel;
	struct loop_source source;
	struct loop_fd lfd;
	/* Thread: control. Entries, their maximum, and those reserved by queue pairs and rings */
	unsigned depth, max_depth, n_reserved;
	unsigned n_unacked_events;
	bool is_unarmed;      /* the device refused to arm it: poll again */
	struct list credited; /* queue pairs with slots that this batch returned */
	struct qp **by_qpn;   /* owned: hash table of attached queue pairs, open addressing */
	unsigned n_slots, n_attached;
	struct list dirty;	 /* queue pairs with an unposted chain */
	struct list dirty_rings; /* receive rings with unposted receives */
	struct chains chains;	 /* for the queue pairs */
	struct log_limit poll_errors;
};
