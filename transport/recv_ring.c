/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive buffers; see recv_ring.h. The work request and the SGEs of a receive are built once.
 * recv_give links the work request into a chain, which is posted in one call.
 */
#include <errno.h>
#include <stdlib.h>
#include <infiniband/verbs.h>

#include "base/bits.h"
#include "base/check.h"
#include "transport/cq.h"
#include "transport/recv_ring.h"

enum {
	CHAIN_MAX = 32,
	CAPSULE_ALIGN = 64,
	DATA_ALIGN = 4096,
	SGES = 2,
};

static size_t capsule_stride(const struct recv_ring *ring)
{
	return align_up(ring->capsule_bytes, CAPSULE_ALIGN);
}

static size_t data_stride(const struct recv_ring *ring)
{
	return align_up(ring->data_bytes, DATA_ALIGN);
}

/* The layout of a part's memory: capsules first, then their data. */
static size_t data_offset(const struct recv_part *part)
{
	return align_up(part->n * capsule_stride(part->ring), DATA_ALIGN);
}

static int map_memory(struct recv_part *part, const struct domain *domain)
{
	size_t n_bytes = data_offset(part) + part->n * data_stride(part->ring);
	/* Capsules alone are small messages, which no device needs to find in a peer's mapping. */
	int r = part->ring->data_bytes ? arena_memory_map(&part->memory, n_bytes)
				       : arena_memory_map_private(&part->memory, n_bytes);

	return r < 0 ? r : mr_open(domain, part->memory.base, n_bytes, MR_LOCAL, &part->mr);
}

/* The work request and SGEs of receive i, which never change. */
static void build(struct recv_part *part, unsigned i)
{
	struct recv_ring *ring = part->ring;
	struct recv *recv = &part->recvs[i];
	struct ibv_sge *sges = &part->sges[i * SGES];

	recv->ring = ring;
	recv->capsule = (char *)part->memory.base + i * capsule_stride(ring);
	sges[0] = (struct ibv_sge){.addr = (uintptr_t)recv->capsule,
				   .length = ring->capsule_bytes,
				   .lkey = part->mr.lkey};
	if (ring->data_bytes) {
		recv->data = (char *)part->memory.base + data_offset(part) + i * data_stride(ring);
		sges[1] = (struct ibv_sge){.addr = (uintptr_t)recv->data,
					   .length = ring->data_bytes,
					   .lkey = part->mr.lkey};
	}
	recv->wr = &part->wrs[i];
	*recv->wr = (struct ibv_recv_wr){.wr_id = (uintptr_t)&recv->work,
					 .sg_list = sges,
					 .num_sge = ring->data_bytes ? SGES : 1};
}

static void free_part(struct recv_part *part)
{
	list_remove(&part->node);
	mr_close(&part->mr);
	arena_memory_unmap(&part->memory);
	free(part->recvs);
	free(part->wrs);
	free(part->sges);
	free(part);
}

static int make_part(struct recv_part *part, const struct domain *domain)
{
	int r;

	part->recvs = calloc(part->n, sizeof(struct recv));
	part->wrs = calloc(part->n, sizeof(struct ibv_recv_wr));
	part->sges = calloc((size_t)part->n * SGES, sizeof(struct ibv_sge));
	if (!part->recvs || !part->wrs || !part->sges)
		return -ENOMEM;
	r = map_memory(part, domain);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < part->n; i++)
		build(part, i);
	return 0;
}

int recv_ring_add(struct recv_ring *ring, const struct domain *domain, unsigned n,
		  struct recv_part **ret_part)
{
	struct recv_part *part;
	int r;

	check(n <= ring->n_max - ring->n_made);
	r = cq_reserve(ring->cq, n);
	if (r < 0)
		return r;
	part = calloc(1, sizeof(*part));
	if (part) {
		part->ring = ring;
		part->n = n;
		list_init(&part->node);
	}
	r = part ? make_part(part, domain) : -ENOMEM;
	if (r < 0) {
		if (part)
			free_part(part);
		cq_release(ring->cq, n);
		return r;
	}
	ring->n_made += n;
	list_add_tail(&ring->parts, &part->node);
	*ret_part = part;
	return 0;
}

static int make_srq(struct recv_ring *ring, const struct domain *domain)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = ring->n_max, .max_sge = SGES}};

	errno = 0;
	ring->srq = ibv_create_srq(domain->pd, &attr);
	if (!ring->srq)
		return errno ? -errno : -ENOMEM;
	return 0;
}

int recv_ring_init(struct recv_ring *ring, struct cq *cq, const struct domain *domain, bool shared,
		   unsigned n_max, uint32_t capsule_bytes, uint32_t data_bytes)
{
	int r;

	*ring = (struct recv_ring){
		.cq = cq, .n_max = n_max, .capsule_bytes = capsule_bytes, .data_bytes = data_bytes};
	list_init(&ring->parts);
	list_init(&ring->dirty);
	r = shared ? make_srq(ring, domain) : 0;
	if (r < 0)
		recv_ring_deinit(ring);
	return r;
}

void recv_ring_deinit(struct recv_ring *ring)
{
	struct list *node;

	if (!ring->n_max)
		return;
	list_remove(&ring->dirty);
	if (ring->srq && ibv_destroy_srq(ring->srq))
		log_warn("a shared receive queue is still in use and stays");
	while ((node = list_take_first(&ring->parts)))
		free_part(list_entry(node, struct recv_part, node));
	cq_release(ring->cq, ring->n_made);
	*ring = (struct recv_ring){0};
}

int recv_part_post(struct recv_part *part)
{
	struct recv_ring *ring = part->ring;
	unsigned n_before;

	recv_flush(ring);
	n_before = ring->n_posted;
	for (unsigned i = 0; i < part->n; i++)
		recv_give(&part->recvs[i]);
	recv_flush(ring);
	return ring->n_posted == n_before + part->n ? 0 : -EIO;
}

void recv_give(struct recv *recv)
{
	struct recv_ring *ring = recv->ring;

	if (ring->qp && qp_is_draining(ring->qp->state))
		return; /* stays unposted: the ring is freed with its queue pair */
	recv->wr->next = ring->chain;
	ring->chain = recv->wr;
	if (++ring->n_chain == CHAIN_MAX)
		recv_flush(ring);
	else if (ring->n_chain == 1)
		list_add_tail(&ring->cq->dirty_rings, &ring->dirty);
}

void recv_flush(struct recv_ring *ring)
{
	struct ibv_recv_wr *bad = NULL;
	int r;

	list_remove(&ring->dirty);
	if (!ring->chain)
		return;
	ring->n_posted += ring->n_chain;
	r = ring->srq ? ibv_post_srq_recv(ring->srq, ring->chain, &bad)
		      : ibv_post_recv(ring->qp->verbs, ring->chain, &bad);
	if (r) {
		/* Not for lack of room: the receive queue has n_max. The device or the queue pair
		 * is failing, and its owner gets another event for that. */
		log_debug("posting receives failed: %s", strerror(r < 0 ? -r : r));
		for (; bad; bad = bad->next)
			ring->n_posted--;
	}
	ring->chain = NULL;
	ring->n_chain = 0;
}

bool recv_complete(struct work *work, struct qp *qp, const struct completion *c)
{
	struct recv *recv = container_of(work, struct recv, work);
	struct recv_ring *ring = recv->ring;

	if (ring->qp && qp_has_drained(ring->qp->state))
		return true; /* a late completion: the ring is about to be freed */
	ring->n_posted--;
	if (c->status == IBV_WC_SUCCESS && qp && !qp_is_draining(qp->state)) {
		ring->on_recv(recv, qp, c);
		return true;
	}
	if (ring->srq)
		recv_give(recv); /* the queue pair failed, but others use the receive */
	return false;
}
