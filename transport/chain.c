/* SPDX-License-Identifier: BSD-3-Clause */
/* Lending chains of work requests; see chain.h. The owner loop of the completion queue. */
#include "transport/chain.h"

#include <errno.h>
#include <stdlib.h>

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

struct chain *chain_take(struct chains *chains)
{
	struct chain *chain = chains->free;

	if (chain) {
		chains->free = chain->next;
		return chain;
	}
	if (chains->n_used == CHAINS_MAX)
		return NULL;
	chain = &chains->all[chains->n_used++];
	link_requests(chain);
	return chain;
}

void chain_give(struct chains *chains, struct chain *chain)
{
	chain->next = chains->free;
	chains->free = chain;
}
