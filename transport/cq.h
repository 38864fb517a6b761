/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A completion queue and its completion channel, as a polled source of one loop. Each completion
 * goes to the struct work that wr_id points to. There is no switch on opcodes, because a failed
 * work request defines only wr_id, status and qp_num (ibv_poll_cq(3)).
 *
 * Threads: control makes, grows and destroys the queue; the owner loop polls it. The queue
 * outlives all queue pairs and receive rings on it. Errors are -errno.
 */
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
/* Whether the queue pair broke before the work request ran. */
bool completion_is_flush(const struct completion *c);
const char *completion_string(const struct completion *c);

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

/* Any thread, before cq_start. The queue begins with depth entries and grows to max_depth, both
 * clamped to the device's limit. On a device without resizing it has max_depth from the start. 0 or
 * -errno. */
int cq_init(struct cq *cq, struct device *device, struct loop *loop, unsigned depth,
	    unsigned max_depth);
/* After cq_stop. Accepts a zeroed one. */
void cq_deinit(struct cq *cq);
/* Control, also while the owner loop polls. Reserves n entries, and grows the queue if it must.
 * Queue pairs and rings reserve before they post anything, so the queue cannot overrun. 0;
 * -ENOSPC: it cannot grow so far; or -errno. */
int cq_reserve(struct cq *cq, unsigned n);
void cq_release(struct cq *cq, unsigned n);

/* The table of attached queue pairs by number. 0 or -ENOMEM. */
int cq_attach(struct cq *cq, struct qp *qp);
void cq_detach(struct cq *cq, struct qp *qp);
/* NULL: none of this number is attached. */
struct qp *cq_find(const struct cq *cq, uint32_t number);
