/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Such a call costs as much as copying 4 KiB, however little it copies. So a WRITE takes along the
 * WRITEs that were posted behind it, and a READ the READs: up to RIDERS small ones, each checked as
 * in its own turn. In that turn it is checked again, and its data has arrived already (wqe.moved).
 * A WRITE may so arrive before a SEND that was posted before it, which no receiver can distinguish
 * from a fast WRITE; never the other way round. A ride stops at a request that changes keys, at a
 * fence, and when its first request does not succeed.
 */
#include "softrdma/fabric/shm/shm.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/peer.h"
#include "softrdma/fabric/shm/shm_copy.h"
#include "softrdma/fabric/shm/shm_view.h"
#include "softrdma/process/api.h"
#include "softrdma/verbs/mr.h"
#include "softrdma/process/likeness.h"
#include "softrdma/verbs/qp_wait.h"

enum {
	RIDERS = 32,		 /* messages of one system call, the first included */
	RIDER_BYTES = 16 * 1024, /* for longer ones the system call's cost is small */
	PIECES = RIDERS + DEV_MAX_SGE,
};

/* ---- where ----------------------------------------------------------------- */

static void add_local(struct sr_xact *x, uint64_t va, uint64_t len)
{
	if (!len)
		return;
	x->local[x->n_local].iov_base = (void *)(uintptr_t)va;
	x->local[x->n_local++].iov_len = len;
	x->length += len;
}

enum ibv_wc_status sr_shm_gather(struct sr_xact *x)
{
	const struct sr_wqe *w = x->w;
	uint32_t need = !is_sink(w->opcode) ? 0
			: sr_is_siw() /* RFC 5040: its tag is on the wire */
				? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
				: IBV_ACCESS_LOCAL_WRITE;
	uint32_t pd = x->qp->s->pd;
	uint64_t va;

	x->n_local = 0;
	x->length = 0;
	if (w->flags & IBV_SEND_INLINE) {
		add_local(x, (uintptr_t)w->data, w->inl_len);
		return IBV_WC_SUCCESS;
	}
	for (uint32_t i = 0; i < w->n_sge; i++) {
		const struct ibv_sge *s = &w->sge[i];

		if (s->length &&
		    !sr_mr_allows(seg_self, s->lkey, pd, s->addr, s->length, need, &va))
			return IBV_WC_LOC_PROT_ERR;
		if (s->length)
			add_local(x, va, s->length);
	}
	return x->length > DEV_MAX_MSG ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

/* The remote range, checked against key, domain, bounds, and both access rights. */
bool sr_shm_remote_range(const struct sr_xact *x, uint32_t need, uint64_t length, struct iovec *ret)
{
	const struct sr_wqe *w = x->w;
	uint64_t va = 0;

	*ret = (struct iovec){.iov_len = length};
	if ((x->r->access & need) != need)
		return false;
	if (!length) /* zero-length operations do not look at the key, IBA 9.7.5.2.6 */
		return true;
	if (w->rkey & MR_LKEY_BIT ||
	    !sr_mr_allows(x->peer->seg, w->rkey, x->r->pd, w->remote_addr, length, need, &va) ||
	    !sr_mr_window_fits(x->peer->seg, w->rkey, atomic_load(&x->r->qpn)))
		return false;
	ret->iov_base = (void *)(uintptr_t)va;
	return true;
}

/* ---- moving ---------------------------------------------------------------- */

/* Slow path after a failed copy: finds out whether the local memory could not be accessed. */
static bool local_is_readable(const struct sr_xact *x)
{
	uint8_t byte;
	struct iovec to = {&byte, 1};

	for (unsigned i = 0; i < x->n_local; i++) {
		uintptr_t at = (uintptr_t)x->local[i].iov_base;
		uintptr_t end = at + x->local[i].iov_len;

		for (; at < end; at = (at & ~(uintptr_t)4095) + 4096) {
			struct iovec from = {(void *)at, 1};

			if (process_vm_readv(sr_peer_self->pid, &to, 1, &from, 1, 0) != 1)
				return false;
		}
	}
	return true;
}

/* The bare system call, without ThreadSanitizer's interceptor: like a device's DMA, two copies
 * to one place of a peer's memory are no race of the program. */
static ssize_t process_vm(const struct sr_xact *x, const struct iovec *local, unsigned n_local,
			  const struct iovec *remote, unsigned n_remote)
{
	return syscall(x->w->opcode == IBV_WR_RDMA_READ ? SYS_process_vm_readv
							: SYS_process_vm_writev,
		       x->peer->pid, local, n_local, remote, n_remote, 0);
}

static enum ibv_wc_status move(const struct sr_xact *x, const struct iovec *local, unsigned n_local,
			       const struct iovec *remote, unsigned n_remote, uint64_t length,
			       enum sr_qp_wait *wait)
{
	bool is_read = x->w->opcode == IBV_WR_RDMA_READ;
	ssize_t n;

	if (x->is_viewed) {
		sr_shm_copy_views(is_read ? local : remote, is_read ? n_local : n_remote,
				  is_read ? remote : local, is_read ? n_remote : n_local);
		return IBV_WC_SUCCESS;
	}
	n = process_vm(x, local, n_local, remote, n_remote);
	if (n == (ssize_t)length)
		return IBV_WC_SUCCESS;
	if (n < 0 && errno == ESRCH) {
		*wait = WAIT_RETRY;
		return IBV_WC_SUCCESS;
	}
	return local_is_readable(x) ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR;
}

static const struct iovec *pieces_of(const struct sr_xact *x)
{
	return x->is_viewed ? x->view : x->local;
}

/* ---- chaos: in pieces ------------------------------------------------------- */

/* The bytes [from, from + length) of a list. Returns how many pieces that are. */
static unsigned slice(const struct iovec *list, unsigned n, uint64_t from, uint64_t length,
		      struct iovec *ret)
{
	unsigned n_ret = 0;

	for (unsigned i = 0; i < n && length; i++) {
		uint64_t len = list[i].iov_len;

		if (from >= len) {
			from -= len;
			continue;
		}
		len -= from;
		len = len < length ? len : length;
		ret[n_ret++] = (struct iovec){(char *)list[i].iov_base + from, len};
		length -= len;
		from = 0;
	}
	return n_ret;
}

/*
 * Chaos: one piece of a message, from either end. No rule orders the arrival of a message's bytes,
 * nor makes them arrive at once (IBA o9-20).
 */
static COLD enum ibv_wc_status move_piece(const struct sr_xact *x, const struct iovec *remote,
					  unsigned n_remote, enum sr_qp_wait *wait)
{
	struct iovec from[DEV_MAX_SGE], to[DEV_MAX_SRQ_SGE];
	struct sr_wqe *w = sr_qp_wqe(x->qp, x->index);
	uint64_t left = x->length - w->moved, piece, at;
	enum ibv_wc_status status;
	unsigned n_from, n_to;

	piece = chaos_piece(left, !w->moved, &w->is_backward);
	at = w->is_backward ? left - piece : w->moved;
	n_from = slice(pieces_of(x), x->n_local, at, piece, from);
	n_to = slice(remote, n_remote, at, piece, to);
	status = move(x, from, n_from, to, n_to, piece, wait);
	if (status || *wait)
		return status;
	w->moved += (uint32_t)piece;
	if (w->moved == x->length)
		return status;
	*wait = WAIT_CHAOS;
	return status;
}

enum ibv_wc_status sr_shm_copy(const struct sr_xact *x, const struct iovec *remote,
			       unsigned n_remote, enum sr_qp_wait *wait)
{
	enum ibv_wc_status status;

	if (x->w->moved == x->length)
		return IBV_WC_SUCCESS;
	if (!chaos_on() && !x->w->moved)
		return move(x, pieces_of(x), x->n_local, remote, n_remote, x->length, wait);
	status = move_piece(x, remote, n_remote, wait);
	if (*wait == WAIT_CHAOS)
		sr_qp_hold(x->qp, chaos_pause_ns());
	return status;
}

/* ---- taking along ---------------------------------------------------------- */

/* The pieces of one system call: of the first request and of those behind it. */
struct carriage {
	unsigned n, n_local, n_remote;
	uint64_t length;
	struct sr_wqe *wqe[RIDERS];
	uint64_t bytes[RIDERS];
	struct iovec local[PIECES];
	struct iovec remote[RIDERS];
};

/*
 * A piece that begins at the end of the last one is merged with it: the kernel looks up the pages
 * of a piece together. Hosts use their buffers one after the other.
 */
static void add_piece(struct iovec *list, unsigned *n, const struct iovec *piece)
{
	struct iovec *last = *n ? &list[*n - 1] : NULL;

	if (last && (char *)last->iov_base + last->iov_len == piece->iov_base)
		last->iov_len += piece->iov_len;
	else
		list[(*n)++] = *piece;
}

static void board(struct carriage *c, const struct sr_xact *x, const struct iovec *remote)
{
	for (unsigned i = 0; i < x->n_local; i++)
		add_piece(c->local, &c->n_local, &x->local[i]);
	add_piece(c->remote, &c->n_remote, remote);
	c->wqe[c->n] = sr_qp_wqe(x->qp, x->index);
	c->bytes[c->n++] = x->length;
	c->length += x->length;
}

static bool is_short(const struct sr_xact *x)
{
	return x->length && x->length <= RIDER_BYTES;
}

/*
 * Whether requests behind x may ride at all. READs beyond the responder's resources are refused in
 * their own turn.
 */
static bool may_carry(const struct sr_xact *x)
{
	return is_short(x) && !x->w->moved && !chaos_on() && x->index + 1 != x->qp->head &&
	       (x->w->opcode != IBV_WR_RDMA_READ || x->qp->attr.max_rd_atomic <= x->r->max_dest_rd);
}

/* Adds the request at index if it is of the first one's kind and passes all checks. */
static bool board_rider(struct carriage *c, const struct sr_xact *first, uint64_t index)
{
	struct sr_xact x NOINIT;
	struct iovec remote;

	x.qp = first->qp;
	x.w = sr_qp_wqe(first->qp, index);
	x.index = index;
	x.peer = first->peer;
	x.r = first->r;
	if (sr_shm_gather(&x) || !is_short(&x) || c->n_local + x.n_local > PIECES ||
	    !sr_shm_remote_range(
		    &x, is_sink(x.w->opcode) ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
		    x.length, &remote))
		return false;
	board(c, &x, &remote);
	return true;
}

static void board_riders(struct carriage *c, const struct sr_xact *first)
{
	for (uint64_t i = first->index + 1; i != first->qp->head && c->n < RIDERS; i++) {
		const struct sr_wqe *w = sr_qp_wqe(first->qp, i);

		if (w->opcode == IBV_WR_SEND && first->w->opcode == IBV_WR_RDMA_WRITE)
			continue;
		if (w->opcode != first->w->opcode || w->flags & IBV_SEND_FENCE ||
		    !board_rider(c, first, i))
			return;
	}
}

/* False: not all of it was copied, and none is marked as arrived. */
static bool carry(const struct sr_xact *x, const struct iovec *remote)
{
	struct carriage c NOINIT;

	c.n = c.n_local = c.n_remote = 0;
	c.length = 0;
	board(&c, x, remote);
	board_riders(&c, x);
	if (process_vm(x, c.local, c.n_local, c.remote, c.n_remote) != (ssize_t)c.length)
		return false;
	for (unsigned i = 0; i < c.n; i++)
		c.wqe[i]->moved = (uint32_t)c.bytes[i];
	return true;
}

enum ibv_wc_status sr_shm_copy_range(const struct sr_xact *x, const struct iovec *remote,
				     enum sr_qp_wait *wait)
{
	if (!x->is_viewed && may_carry(x) && carry(x, remote))
		return IBV_WC_SUCCESS;
	return sr_shm_copy(x, remote, 1, wait);
}
