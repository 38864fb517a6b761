/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests that are queued and posted together (qp.h). A queue pair has a chain only while it has something
 * to post. Its completion queue lends the one that came back last, so many queue pairs go round in a few, which
 * stay in the cache; when all are lent, the one that has been out for longest is posted.
 *
 * Everything here runs on the owner loop of the completion queue, but chains_init and chains_deinit.
 */
#pragma once

#include <infiniband/verbs.h>

#include "transport/qp.h"

enum {
	CHAIN_MAX = 64,	 /* work requests: 32 Reads that are answered at once */
	CHAINS_MAX = 16, /* of a completion queue */
};

struct chain {
	struct chain *next;		   /* in cq->chains.free */
	struct ibv_send_wr wrs[CHAIN_MAX]; /* each linked to the next, and to its sges */
	struct ibv_sge sges[CHAIN_MAX * QP_SGE_MAX];
};

/* Like cq_init, as part of it. 0 or -ENOMEM. */
int chains_init(struct chains *chains);
void chains_deinit(struct chains *chains); /* accepts a zeroed one */

struct chain *chain_take(struct cq *cq);
void chain_give(struct cq *cq, struct chain *chain);
