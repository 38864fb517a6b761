/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/verbs/ah.h"
#include "softrdma/verbs/datagram.h"
#include "softrdma/verbs/datagram_out.h"
#include "softrdma/verbs/mr.h"
#include "softrdma/verbs/qp_run.h"

/* The data of a work request, checked. */
static enum ibv_wc_status gather(const struct sr_qp *qp, const struct sr_wqe *w,
				 struct iovec data[DEV_MAX_SGE], struct sr_datagram *d)
{
	uint64_t length = 0, va;

	d->n_data = 0;
	if (w->flags & IBV_SEND_INLINE) {
		data[d->n_data++] = (struct iovec){(void *)(uintptr_t)w->data, w->inl_len};
		length = w->inl_len;
	}
	for (uint32_t i = 0; i < w->n_sge; i++) {
		const struct ibv_sge *s = &w->sge[i];

		if (!s->length)
			continue;
		if (!sr_mr_allows(seg_self, s->lkey, qp->s->pd, s->addr, s->length, 0, &va))
			return IBV_WC_LOC_PROT_ERR;
		data[d->n_data++] = (struct iovec){(void *)(uintptr_t)va, s->length};
		length += s->length;
	}
	d->data = data;
	d->length = (uint32_t)length;
	return length > 128u << sr_engine_path_mtu() ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

/* A Q_Key with the highest bit is a controlled one: the queue pair's own is used (IBA 10.2.5). */
static uint32_t qkey_of(const struct sr_qp *qp, uint32_t asked)
{
	return asked >> 31 ? qp->attr.qkey : asked;
}

static bool is_lost(void)
{
	return chaos_on() && (chaos_port_is_down() || chaos_packet() == CHAOS_PACKET_DROPPED);
}

static enum ibv_wc_status execute(struct sr_qp *qp, const struct sr_wqe *w, uint64_t index,
				  enum sr_qp_wait *ret_wait)
{
	const struct sr_wqe_extra *extra = sr_qp_extra(qp, w);
	struct iovec data[DEV_MAX_SGE];
	struct sr_datagram d = {
		.address = &extra->datagram.to,
		.qpn = extra->datagram.qpn,
		.qkey = qkey_of(qp, extra->datagram.qkey),
		.source_qpn = qp->ib.qp_base.qp_num,
		.psn = (qp->attr.sq_psn + (uint32_t)index) & 0xffffff,
		.imm = w->imm,
		.has_imm = w->opcode == IBV_WR_SEND_WITH_IMM,
		.is_solicited = w->flags & IBV_SEND_SOLICITED,
	};
	enum ibv_wc_status status = gather(qp, w, data, &d);

	if (!d.address->engine) /* ibv_wr_send() without ibv_wr_set_ud_addr() */
		return IBV_WC_LOC_QP_OP_ERR;
	if (status)
		return status;
	if (!is_lost() && !d.address->engine->send(qp, &d)) {
		*ret_wait = WAIT_RETRY;
		return IBV_WC_SUCCESS;
	}
	sr_qp_succeed(qp, index, 0);
	return IBV_WC_SUCCESS;
}

static struct sr_peer *find(uint32_t qpn)
{
	return NULL;
}

static void join(struct sr_qp *qp, struct sr_peer *found)
{
}

static void leave(struct sr_qp *qp)
{
	sr_peer_unref(qp->end.peer);
	qp->end.peer = NULL;
}

/* It needs no looking for: the engine of an address resumes it. */
static bool is_connected(const struct sr_qp *qp)
{
	return true;
}

static void kick(struct sr_qp *qp)
{
}

static uint32_t rnr_timer(const struct sr_qp *qp)
{
	return 0;
}

const struct sr_engine sr_datagram_engine = {
	.find = find,
	.connect = join,
	.disconnect = leave,
	.is_connected = is_connected,
	.execute = execute,
	.kick = kick,
	.rnr_timer = rnr_timer,
};
