/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer may die at any time. Its memory stays mapped; that it has died is seen before the next
 * message.
 */
#include "softrdma/fabric/shm/shm.h"
#include "softrdma/fabric/shm/shm_view.h"
#include "softrdma/fabric/view.h"

static const struct seg_mr *region(const struct seg *s, uint32_t key)
{
	return &s->mr[key >> 8 & (SEG_MAX_MR - 1)];
}

/* The requester's side. */
static bool view_local(struct sr_xact *x)
{
	const struct sr_wqe *w = x->w;
	unsigned n = 0;

	if (w->flags & IBV_SEND_INLINE) {
		x->view[0] = x->local[0];
		return true;
	}
	for (uint32_t i = 0; i < w->n_sge; i++) {
		const struct ibv_sge *s = &w->sge[i];
		uint8_t *at;

		if (!s->length)
			continue;
		at = sr_view_at(sr_peer_self, region(seg_self, s->lkey), s->addr, s->length,
				is_sink(w->opcode));
		if (!at && s->length <= SEG_INLINE && !is_sink(w->opcode))
			at = x->local[n].iov_base;
		if (!at)
			return false;
		x->view[n++] = (struct iovec){at, s->length};
	}
	return true;
}

void sr_shm_view_range(struct sr_xact *x, struct iovec *remote)
{
	const struct sr_wqe *w = x->w;
	uint8_t *at = NULL;

	x->is_viewed = false;
	if (x->length)
		at = sr_view_at(x->peer, region(x->peer->seg, w->rkey), w->remote_addr, x->length,
				w->opcode != IBV_WR_RDMA_READ);
	if (!at || !view_local(x))
		return;
	remote->iov_base = at;
	x->is_viewed = true;
}

void sr_shm_view_receive(struct sr_xact *x, const struct sr_taken *t, struct iovec *to, unsigned n)
{
	uint8_t *at[DEV_MAX_SRQ_SGE] NOINIT;
	unsigned found = 0;

	x->is_viewed = false;
	for (uint32_t i = 0; i < t->rqe->n_sge && found < n; i++) {
		const struct ibv_sge *s = &t->rqe->sge[i];

		if (!s->length)
			continue;
		at[found] = sr_view_at(x->peer, region(x->peer->seg, s->lkey), s->addr,
				       to[found].iov_len, true);
		if (!at[found++])
			return;
	}
	if (found < n || !view_local(x))
		return;
	for (unsigned i = 0; i < n; i++)
		to[i].iov_base = at[i];
	x->is_viewed = true;
}

#ifdef __SANITIZE_THREAD__
/* Hidden from ThreadSanitizer: like a device's DMA, two copies to one place of a peer's memory are
 * no race of the program. */
__attribute__((no_sanitize("thread"))) static void copy(void *to, const void *from, size_t n)
{
	const volatile uint8_t *f = from;
	volatile uint8_t *t = to;

	while (n--)
		*t++ = *f++;
}
#else
static void copy(void *to, const void *from, size_t n)
{
	memmove(to, from, n);
}
#endif

void sr_shm_copy_views(const struct iovec *to, unsigned n_to, const struct iovec *from,
		       unsigned n_from)
{
	size_t to_done = 0, from_done = 0;

	while (n_to && n_from) {
		size_t to_left = to->iov_len - to_done, from_left = from->iov_len - from_done;
		size_t n = to_left < from_left ? to_left : from_left;

		copy((char *)to->iov_base + to_done, (const char *)from->iov_base + from_done, n);
		to_done += n;
		from_done += n;
		if (to_done == to->iov_len) {
			to++, n_to--;
			to_done = 0;
		}
		if (from_done == from->iov_len) {
			from++, n_from--;
			from_done = 0;
		}
	}
}
