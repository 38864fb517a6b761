/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive buffers; see recv_ring.h. Each receive has its work request and its SGEs built
 * once; giving a receive back links its work request into a chain that is posted in one
 * call.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <infiniband/verbs.h>

#include "base/bits.h"
#include "base/check.h"
#include "transport/cq_internal.h"
#include "transport/recv_ring.h"

enum {
	CHAIN_MAX = 32,
	CAPSULE_ALIGN = 64,
	DATA_ALIGN = 4096,
	SGES = 2,
};

static int map_memory(struct recv_ring *ring, const struct domain *domain)
{
	size_t capsules = align_up((uint64_t)ring->n *
					   align_up(ring->capsule_bytes, CAPSULE_ALIGN),
				   DATA_ALIGN);
	size_t data = (size_t)ring->n * align_up(ring->data_bytes, DATA_ALIGN);
	void *memory = mmap(NULL, capsules + data, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	ring->memory = memory;
	ring->memory_bytes = capsules + data;
	return mr_open(domain, memory, ring->memory_bytes, MR_LOCAL, &ring->mr);
}

/* The work request and SGEs of receive i, which never change. */
static void build(struct recv_ring *ring, unsigned i)
{
	size_t stride = align_up(ring->capsule_bytes, CAPSULE_ALIGN);
	char *data_area = (char *)ring->memory +
			  align_up((uint64_t)ring->n * stride, DATA_ALIGN);
	struct recv *recv = &ring->recvs[i];
	struct ibv_sge *sges = &ring->sges[i * SGES];

	recv->ring = ring;
	recv->capsule = (char *)ring->memory + i * stride;
	sges[0] = (struct ibv_sge){.addr = (uintptr_t)recv->capsule,
				   .length = ring->capsule_bytes,
				   .lkey = ring->mr.lkey};
	if (ring->data_bytes) {
		recv->data = data_area + i * align_up(ring->data_bytes, DATA_ALIGN);
		sges[1] = (struct ibv_sge){.addr = (uintptr_t)recv->data,
					   .length = ring->data_bytes,
					   .lkey = ring->mr.lkey};
	}
	recv->wr = &ring->wrs[i];
	*recv->wr = (struct ibv_recv_wr){.wr_id = (uintptr_t)&recv->work,
					 .sg_list = sges,
					 .num_sge = ring->data_bytes ? SGES : 1};
}

static int make_srq(struct recv_ring *ring, const struct domain *domain)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = ring->n, .max_sge = SGES}};

	errno = 0;
	ring->srq = ibv_create_srq(domain->pd, &attr);
	if (!ring->srq)
		return errno ? -errno : -ENOMEM;
	return 0;
}

static int init_parts(struct recv_ring *ring, const struct domain *domain, bool shared)
{
	int r;

	ring->recvs = calloc(ring->n, sizeof(struct recv));
	ring->wrs = calloc(ring->n, sizeof(struct ibv_recv_wr));
	ring->sges = calloc((size_t)ring->n * SGES, sizeof(struct ibv_sge));
	if (!ring->recvs || !ring->wrs || !ring->sges)
		return -ENOMEM;
	r = map_memory(ring, domain);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < ring->n; i++)
		build(ring, i);
	return shared ? make_srq(ring, domain) : 0;
}

int recv_ring_init(struct recv_ring *ring, struct cq *cq, const struct domain *domain,
		   bool shared, unsigned n, uint32_t capsule_bytes, uint32_t data_bytes)
{
	int r = cq_reserve(cq, n);

	*ring = (struct recv_ring){0};
	if (r < 0)
		return r;
	*ring = (struct recv_ring){.cq = cq,
				   .n = n,
				   .capsule_bytes = capsule_bytes,
				   .data_bytes = data_bytes};
	list_init(&ring->dirty);
	r = init_parts(ring, domain, shared);
	if (r < 0)
		recv_ring_deinit(ring);
	return r;
}

void recv_ring_deinit(struct recv_ring *ring)
{
	if (!ring->n)
		return;
	list_remove(&ring->dirty);
	if (ring->srq && ibv_destroy_srq(ring->srq))
		log_warn("a shared receive queue is still in use and stays");
	mr_close(&ring->mr);
	if (ring->memory)
		munmap(ring->memory, ring->memory_bytes);
	free(ring->recvs);
	free(ring->wrs);
	free(ring->sges);
	cq_release(ring->cq, ring->n);
	*ring = (struct recv_ring){0};
}

int recv_ring_start(struct recv_ring *ring)
{
	for (unsigned i = 0; i < ring->n; i++)
		recv_give(&ring->recvs[i]);
	recv_flush(ring);
	return ring->n_posted == ring->n ? 0 : -EIO;
}

void recv_give(struct recv *recv)
{
	struct recv_ring *ring = recv->ring;

	if (ring->qp && ring->qp->is_draining)
		return; /* it stays idle; the ring goes with its queue pair */
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
		/* Never for lack of room: n is what was asked for. The device or the
		 * queue pair is dying, and its owner will hear of that by other ways. */
		log_debug("posting receives failed: %s", strerror(r < 0 ? -r : r));
		for (; bad; bad = bad->next)
			ring->n_posted--;
	}
	ring->chain = NULL;
	ring->n_chain = 0;
}

void recv_complete(struct work *work, struct qp *qp, const struct completion *c)
{
	struct recv *recv = container_of(work, struct recv, work);
	struct recv_ring *ring = recv->ring;

	if (ring->qp && ring->qp->has_drained)
		return; /* later than anybody waits */
	ring->n_posted--;
	if (c->status == IBV_WC_SUCCESS && qp && !qp->is_draining) {
		ring->on_recv(recv, qp, c);
		return;
	}
	if (c->status != IBV_WC_SUCCESS && !completion_is_flush(c) && qp)
		qp_break(qp, c);
	if (ring->srq)
		recv_give(recv); /* the queue pair died, the others need the receive */
	else if (qp)
		qp_check_drained(qp);
}
