/* SPDX-License-Identifier: BSD-3-Clause */
/* Lending chains of work requests; see chain.h. The owner loop of the completion queue. */
#include "transport/chain.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"

int chains_init(struct chains *chains)
{
	*chains = (struct chains){.all = calloc(CHAINS_MAX, sizeof(struct chain))};
	return chains->all ? 0 : -ENOMEM;
}

void chains_deinit(struct chains *chains)
{
	free(chains->all);
	*chains = (struct chains){0};
}

/* Links all requests once. qp_flush ends a chain behind its last request only while it posts it. */
static void link_requests(struct chain *chain)
{
	for (unsigned i = 0; i < CHAIN_MAX; i++) {
		chain->wrs[i].sg_list = &chain->sges[i * QP_SGE_MAX];
		chain->wrs[i].next = i + 1 < CHAIN_MAX ? &chain->wrs[i + 1] : NULL;
	}
}

struct chain *chain_take(struct cq *cq)
{
	struct chains *chains = &cq->chains;
	struct chain *chain;

	if (!chains->free && chains->n_used < CHAINS_MAX) {
		chain = &chains->all[chains->n_used++];
		link_requests(chain);
		return chain;
	}
	if (!chains->free) {
		check(!list_is_empty(&cq->dirty));
		qp_flush(list_entry(cq->dirty.next, struct qp, dirty));
	}
	chain = chains->free;
	check(chain);
	chains->free = chain->next;
	return chain;
}

void chain_give(struct cq *cq, struct chain *chain)
{
	chain->next = cq->chains.free;
	cq->chains.free = chain;
}
