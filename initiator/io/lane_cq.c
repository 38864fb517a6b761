/* SPDX-License-Identifier: BSD-3-Clause */
#include "initiator/io/lane_cq.h"
#include "transport/cq_poll.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"

static struct lane_cq *find(struct list *cqs, const struct device *device, const struct loop *loop,
			    unsigned n)
{
	list_for_each (node, cqs) {
		struct lane_cq *cq = list_entry(node, struct lane_cq, node);

		if (cq->cq.loop == loop && cq->cq.device == device &&
		    cq->cq.max_depth - cq->cq.n_reserved >= n)
			return cq;
	}
	return NULL;
}

static int make(struct list *cqs, struct device *device, struct loop *loop, unsigned n,
		unsigned n_queues, struct lane_cq **ret_cq)
{
	struct lane_cq *cq = calloc(1, sizeof(*cq));
	int r = cq ? cq_init(&cq->cq, device, loop, n, n * n_queues) : -ENOMEM;

	if (r < 0) {
		free(cq);
		return r;
	}
	list_add_tail(cqs, &cq->node);
	*ret_cq = cq;
	return 0;
}

int lane_cq_take(struct list *cqs, struct device *device, struct loop *loop, unsigned n,
		 unsigned n_queues, struct lane_cq **ret_cq)
{
	struct lane_cq *cq = find(cqs, device, loop, n);
	int r = cq ? 0 : make(cqs, device, loop, n, n_queues, &cq);

	if (r < 0)
		return r;
	cq->n_users++;
	*ret_cq = cq;
	return 0;
}

void lane_cq_give(struct lane_cq *cq)
{
	if (!cq || --cq->n_users)
		return;
	check(!cq->n_started);
	list_remove(&cq->node);
	cq_deinit(&cq->cq);
	free(cq);
}

int lane_cq_start(struct lane_cq *cq)
{
	int r = cq->n_started ? 0 : cq_start(&cq->cq);

	cq->n_started += r == 0;
	return r;
}

void lane_cq_stop(struct lane_cq *cq)
{
	check(cq->n_started);
	if (!--cq->n_started)
		cq_stop(&cq->cq);
}
