/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chains: work requests that are queued and posted together (qp.h). The completion queue owns
 * them, and a queue pair borrows one only while it has something to post. The queue lends the
 * chain that came back last, so many queue pairs share a few chains, which stay in the cache. When
 * all are lent, qp_post.c first posts the one that was lent first.
 *
 * Thread: the owner loop of the completion queue, but for chains_init and chains_deinit.
 */
#pragma once

#include <infiniband/verbs.h>

#include "transport/qp_impl.h"

enum {
	CHAIN_MAX = 64,	 /* work requests: the answers to 32 Reads */
	CHAINS_MAX = 16, /* for each completion queue */
};

struct chain {
	struct chain *next;		   /* in cq->chains.free */
	struct ibv_send_wr wrs[CHAIN_MAX]; /* each is linked to the next one and to its sges */
	struct ibv_sge sges[CHAIN_MAX * QP_SGE_MAX];
};

/* Part of cq_init. 0 or -ENOMEM. */
int chains_init(struct chains *chains);
void chains_deinit(struct chains *chains); /* accepts a zeroed one */

/* NULL: all are lent. */
struct chain *chain_take(struct chains *chains);
void chain_give(struct chains *chains, struct chain *chain);
