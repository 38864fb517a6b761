/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: their entries, and the queue pairs attached to them; see cq.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <infiniband/verbs.h>

#include "base/bits.h"
#include "base/check.h"
#include "transport/chain.h"
#include "transport/cq.h"
#include "transport/qp_impl.h"

enum {
	SLOTS_MIN = 64,
};

bool completion_is_flush(const struct completion *c)
{
	return c->status == IBV_WC_WR_FLUSH_ERR;
}

const char *completion_string(const struct completion *c)
{
	return ibv_wc_status_str((enum ibv_wc_status)c->status);
}

/* ---- queue pairs by number ---- */

static unsigned slot_of(const struct cq *cq, uint32_t number)
{
	return number * 2654435761u & (cq->n_slots - 1);
}

struct qp *cq_find(const struct cq *cq, uint32_t number)
{
	unsigned i;

	for (i = slot_of(cq, number); cq->by_qpn[i]; i = (i + 1) & (cq->n_slots - 1))
		if (cq->by_qpn[i]->number == number)
			return cq->by_qpn[i];
	return NULL;
}

static void insert(struct cq *cq, struct qp *qp)
{
	unsigned i = slot_of(cq, qp->number);

	while (cq->by_qpn[i])
		i = (i + 1) & (cq->n_slots - 1);
	cq->by_qpn[i] = qp;
}

static int rehash(struct cq *cq, unsigned n_slots)
{
	struct qp **old = cq->by_qpn;
	unsigned n_old = cq->n_slots;
	struct qp **new = calloc(n_slots, sizeof(struct qp *));

	if (!new)
		return -ENOMEM;
	cq->by_qpn = new;
	cq->n_slots = n_slots;
	for (unsigned i = 0; i < n_old; i++)
		if (old[i])
			insert(cq, old[i]);
	free(old);
	return 0;
}

int cq_attach(struct cq *cq, struct qp *qp)
{
	if (2 * (cq->n_attached + 1) > cq->n_slots) {
		int r = rehash(cq, 2 * cq->n_slots);

		if (r < 0)
			return r;
	}
	insert(cq, qp);
	cq->n_attached++;
	return 0;
}

/* Open addressing without tombstones: inserts the rest of the cluster again. */
void cq_detach(struct cq *cq, struct qp *qp)
{
	unsigned i = slot_of(cq, qp->number);

	while (cq->by_qpn[i] != qp) {
		check(cq->by_qpn[i]);
		i = (i + 1) & (cq->n_slots - 1);
	}
	cq->by_qpn[i] = NULL;
	cq->n_attached--;
	for (i = (i + 1) & (cq->n_slots - 1); cq->by_qpn[i]; i = (i + 1) & (cq->n_slots - 1)) {
		struct qp *moved = cq->by_qpn[i];

		cq->by_qpn[i] = NULL;
		insert(cq, moved);
	}
}

/* ---- making and unmaking ---- */

/* Whether the queue can grow. No iWARP device resizes; a driver without resizing fails this first
 * call, while the queue is empty. */
static bool can_grow(const struct cq *cq)
{
	return !cq->device->limits.is_iwarp && !ibv_resize_cq(cq->verbs, (int)cq->depth);
}

/* Reads the real depth: devices round up, most of them to a power of 2. */
static void note_depth(struct cq *cq)
{
	cq->depth = (unsigned)cq->verbs->cqe;
}

static void make_verbs(struct cq *cq, unsigned depth)
{
	bool is_final = depth == cq->max_depth;

	cq->verbs = ibv_create_cq(cq->device->verbs, (int)depth, NULL, cq->channel, 0);
	if (!cq->verbs)
		return;
	note_depth(cq);
	if (is_final || can_grow(cq))
		return;
	ibv_destroy_cq(cq->verbs);
	errno = 0;
	make_verbs(cq, cq->max_depth);
}

int cq_init(struct cq *cq, struct device *device, struct loop *loop, unsigned depth,
	    unsigned max_depth)
{
	*cq = (struct cq){.device = device,
			  .loop = loop,
			  .max_depth = MIN(max_depth, device->limits.max_cqe)};
	list_init(&cq->dirty);
	list_init(&cq->dirty_rings);
	list_init(&cq->credited);
	errno = 0;
	cq->channel = ibv_create_comp_channel(device->verbs);
	if (cq->channel && !rehash(cq, SLOTS_MIN) && !chains_init(&cq->chains))
		make_verbs(cq, MIN(depth, cq->max_depth));
	if (!cq->verbs || fcntl(cq->channel->fd, F_SETFL, O_NONBLOCK) < 0) {
		int r = errno ? -errno : -ENOMEM;

		cq_deinit(cq);
		return r;
	}
	return 0;
}

void cq_deinit(struct cq *cq)
{
	if (cq->verbs) {
		ibv_ack_cq_events(cq->verbs, cq->n_unacked_events);
		if (ibv_destroy_cq(cq->verbs))
			log_warn("%s: a completion queue is still in use and stays",
				 cq->device->name);
	}
	if (cq->channel)
		ibv_destroy_comp_channel(cq->channel);
	chains_deinit(&cq->chains);
	free(cq->by_qpn);
	*cq = (struct cq){0};
}

/* Grows by at least half of the depth, so that the number of calls stays small. */
static int grow(struct cq *cq, unsigned n_needed)
{
	unsigned depth = MIN(MAX(n_needed, cq->depth + cq->depth / 2), cq->max_depth);
	int r;

	if (n_needed > cq->max_depth)
		return -ENOSPC;
	r = ibv_resize_cq(cq->verbs, (int)depth);
	if (r)
		return r < 0 ? r : -r;
	note_depth(cq);
	return 0;
}

int cq_reserve(struct cq *cq, unsigned n)
{
	int r = 0;

	if (n > cq->depth - cq->n_reserved)
		r = grow(cq, cq->n_reserved + n);
	if (r < 0)
		return r;
	cq->n_reserved += n;
	return 0;
}

void cq_release(struct cq *cq, unsigned n)
{
	check(n <= cq->n_reserved);
	cq->n_reserved -= n;
}
