/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A completion queue and its completion channel as a polled source of one loop.
 * Completions are handed to the work they belong to; there is no switch on opcodes,
 * because of a failed work request only wr_id, status and qp_num are defined
 * (ibv_poll_cq(3)).
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
bool completion_is_flush(const struct completion *c); /* the queue pair died before it ran */
const char *completion_string(const struct completion *c);

/*
 * One work request in the hands of the device; embedded in its owner, which must not be
 * reused before done was called. done is called exactly once for each posted work, in
 * posting order of its queue, on the loop of the completion queue.
 */
struct work {
	void (*done)(struct work *work, const struct completion *c);
	struct qp *qp;	  /* send queue: set by qp_send and friends; NULL marks a receive */
	bool is_read;	  /* holds a READ credit; set by qp_read */
	bool is_done;	  /* its own completion came */
	uint16_t status;  /* then: enum ibv_wc_status */
	uint16_t n_slots; /* that it takes in its send queue */
	unsigned seq;	  /* the first of them */
};

/* What queue pairs queue into; chain.h. */
struct chains {
	struct chain *all;  /* owned */
	struct chain *free; /* of those that were ever used */
	unsigned n_used;
};

struct cq {
	/* Thread: owner loop; created and destroyed by control while the loop does not
	 * poll it */
	struct device *device;
	struct loop *loop;
	struct ibv_cq *verbs;
	struct ibv_comp_channel *channel;
	struct loop_source source;
	struct loop_fd lfd;
	/* Control: entries, how many they may become, and those promised to queue pairs and
	 * receive rings */
	unsigned depth, max_depth, n_reserved;
	unsigned n_unacked_events;
	bool is_unarmed;      /* the device refused to: poll on */
	struct list credited; /* queue pairs that got slots back in this batch */
	struct qp **by_qpn;   /* owned: hash table of attached queue pairs, open addressing */
	unsigned n_slots, n_attached;
	struct list dirty;	 /* queue pairs with an unposted chain */
	struct list dirty_rings; /* receive rings with unposted receives */
	struct chains chains;	 /* for them */
	struct log_limit poll_errors;
};

/* Any thread before cq_start. It begins with depth entries and grows to max_depth, both clamped
 * to the device's limit; a device whose queues cannot grow gives max_depth at once. 0 or
 * -errno. */
int cq_init(struct cq *cq, struct device *device, struct loop *loop, unsigned depth,
	    unsigned max_depth);
/* Owner loop: begins polling. */
int cq_start(struct cq *cq);
/* Owner loop: ends polling. No queue pair is attached any more. */
void cq_stop(struct cq *cq);
/* After cq_stop. Accepts a zeroed one. */
void cq_deinit(struct cq *cq);
/* Control, also while the owner loop polls. Entries are promised before anything is posted,
 * so the queue cannot overrun: it grows when it must. -ENOSPC if it cannot. */
int cq_reserve(struct cq *cq, unsigned n);
void cq_release(struct cq *cq, unsigned n);
