/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/verbs/datagram.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "softrdma/fabric/completion.h"
#include "softrdma/fabric/rq.h"
#include "softrdma/verbs/datagram_in.h"
#include "softrdma/verbs/mr.h"

/* The shared lock of the receiving queue pair is held. */
struct arrival {
	struct sr_peer *owner;
	struct seg_qp *q;
	uint32_t slot;
	const struct sr_datagram *d;
	struct sr_taken taken;
	uint32_t length; /* with the header */
	uint8_t grh[SR_GRH_BYTES];
};

static bool is_for(const struct seg_qp *q, const struct sr_datagram *d)
{
	uint32_t state = atomic_load(&q->state);

	return atomic_load(&q->type) == IBV_QPT_UD && q->qkey == d->qkey &&
	       (d->qpn == SR_MULTICAST_QPN || atomic_load(&q->qpn) == d->qpn) &&
	       (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD);
}

static struct seg_cqe *begin(struct arrival *a)
{
	struct seg_cqe *e = sr_completion_begin(a->owner, a->q->recv_cq);

	if (!e)
		return NULL;
	sr_taken_name(&a->taken, e);
	e->inl_len = 0;
	return e;
}

static void end(struct arrival *a, const struct seg_cqe *e)
{
	if (e)
		sr_completion_end(a->owner, a->q->recv_cq, e);
	sr_rq_done(a->owner, a->slot, &a->taken);
}

/* The receive fails, and the queue pair: its owner's helper flushes it. */
static void fail(struct arrival *a, enum ibv_wc_status status)
{
	struct seg_cqe *e = begin(a);

	if (e)
		sr_completion_error(e, atomic_load(&a->q->qpn), a->taken.rqe->wr_id, status);
	end(a, e);
	atomic_store(&a->q->state, IBV_QPS_ERR);
	sr_peer_kick_qp(a->owner, a->slot, SEG_EV_FLUSH);
}

/* The receive's memory, checked. */
static enum ibv_wc_status find_memory(const struct arrival *a, struct iovec *to, unsigned *ret_n)
{
	const struct seg_rqe *r = a->taken.rqe;
	uint32_t left = a->length;
	unsigned n = 0;

	for (uint32_t i = 0; i < r->n_sge && left; i++) {
		const struct ibv_sge *s = &r->sge[i];
		uint32_t part = left < s->length ? left : s->length;
		uint64_t va;

		if (!part)
			continue;
		if (!sr_mr_allows(a->owner->seg, s->lkey, a->taken.pd, s->addr, s->length,
				  IBV_ACCESS_LOCAL_WRITE, &va))
			return IBV_WC_LOC_PROT_ERR;
		to[n++] = (struct iovec){(void *)(uintptr_t)va, part};
		left -= part;
	}
	*ret_n = n;
	return left ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

/* The header and the data, as pieces of this process' memory. Returns how many. */
static unsigned pieces(struct arrival *a, struct iovec from[DEV_MAX_SGE + 1])
{
	from[0] = (struct iovec){a->grh, SR_GRH_BYTES};
	memcpy(from + 1, a->d->data, a->d->n_data * sizeof(*from));
	return a->d->n_data + 1;
}

static void gather(const struct iovec *from, unsigned n, uint8_t *to)
{
	for (unsigned i = 0; i < n; to += from[i++].iov_len)
		memcpy(to, from[i].iov_base, from[i].iov_len);
}

/* Also within this process by the system call: a hole is then an error, and no SIGSEGV. */
static bool copy(struct arrival *a, const struct iovec *to, unsigned n_to)
{
	struct iovec from[DEV_MAX_SGE + 1];
	unsigned n = pieces(a, from);

	return syscall(SYS_process_vm_writev, a->owner->pid, from, n, to, n_to, 0) ==
	       (ssize_t)a->length;
}

/* RoCE v2 has no service level. Its place says which IP header a datagram had (IBA A17.4.5.1), as
 * the adapters do that UCX knows: bit 3 stands for UDP. */
static uint8_t packet_type(const struct sr_address *address)
{
	return sr_gid_is_ip4(&address->remote) ? 0xa : 0x9;
}

static void complete(struct arrival *a)
{
	struct seg_cqe *e = begin(a);
	struct iovec from[DEV_MAX_SGE + 1];

	if (e) {
		e->wc = (struct ibv_wc){
			.wr_id = a->taken.rqe->wr_id,
			.opcode = IBV_WC_RECV,
			.byte_len = a->length,
			.imm_data = a->d->imm,
			.qp_num = atomic_load(&a->q->qpn),
			.src_qp = a->d->source_qpn,
			.wc_flags = IBV_WC_GRH | (a->d->has_imm ? IBV_WC_WITH_IMM : 0u),
			.sl = packet_type(a->d->address),
		};
		e->solicited = a->d->is_solicited;
		if (a->length <= SEG_INLINE) {
			gather(from, pieces(a, from), e->inl);
			e->inl_len = (uint16_t)a->length;
		}
	}
	end(a, e);
}

static void arrive(struct arrival *a)
{
	struct iovec to[DEV_MAX_SRQ_SGE];
	enum ibv_wc_status status;
	unsigned n;

	if (!sr_rq_take(a->owner, a->slot, &a->taken))
		return;
	a->length = SR_GRH_BYTES + a->d->length;
	status = find_memory(a, to, &n);
	if (!status) {
		sr_grh_build(a->d, a->grh);
		if (a->length > SEG_INLINE && !copy(a, to, n))
			status = IBV_WC_LOC_PROT_ERR;
	}
	if (status)
		fail(a, status);
	else
		complete(a);
}

void sr_datagram_deliver(struct sr_peer *owner, uint32_t slot, const struct sr_datagram *d)
{
	struct arrival a = {.owner = owner, .q = &owner->seg->qp[slot], .slot = slot, .d = d};

	if (atomic_load(&owner->is_dead) || !seg_owner_lives(owner->seg))
		return;
	sr_rq_lock(owner, slot);
	if (is_for(a.q, d))
		arrive(&a);
	sr_rq_unlock(owner, slot);
}
