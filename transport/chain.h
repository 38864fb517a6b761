/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chains: work requests that are queued and posted together (qp.h). The completion queue owns
 * them, and a queue pair borrows one only while it has something to post. The queue lends the
 * chain that came back last, so many queue pairs share a few chains, which stay in the cache. When
 * all are lent, it first posts the one that was lent first.
 *
 * Thread: the owner loop of the completion queue, but for chains_init and chains_deinit.
 */
#pragma once

#include <infiniband/verbs.h>

#include "transport/qp.h"

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

/* Never NULL: posts the chain of another queue pair if none is free. */
struct chain *chain_take(struct cq *cq);
void chain_give(struct cq *cq, struct chain *chain);
