/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/cm/sr_cm.h"

#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_qp.h"
#include "softrdma/verbs/gid.h"
#include "softrdma/verbs/sr_qp.h"
#include "softrdma/verbs/srq_create.h"

uint8_t sr_cm_ack_timeout(const struct sr_cm_id *id)
{
	return id->ack_timeout == CM_ACK_TIMEOUT_UNSET ? id->way->ack_timeout : id->ack_timeout;
}

void sr_cm_fill_address(const struct sr_cm_id *id, struct ibv_ah_attr *ret)
{
	*ret = (struct ibv_ah_attr){
		.grh.dgid = id->ib.route.addr.addr.ibaddr.dgid,
		.grh.sgid_index = (uint8_t)sr_gid_index(&id->ib.route.addr.src_addr),
		.grh.hop_limit = 64,
		.is_global = 1,
		.port_num = 1,
	};
}

static void datagram_init_attr(struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_QKEY | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->pkey_index = 0;
	a->port_num = 1;
	a->qkey = RDMA_UDP_QKEY;
}

static void init_attr(struct sr_cm_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->pkey_index = 0;
	a->port_num = 1;
	a->qp_access_flags = 0;
	if (id->remote_qpn) /* ib_cm_init_qp_init_attr(): rights come with the connection */
		a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->remote_qpn && id->responder_resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

static void rtr_attr(struct sr_cm_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	a->path_mtu = id->path_mtu;
	a->dest_qp_num = id->remote_qpn;
	a->rq_psn = id->local_psn;
	a->max_dest_rd_atomic = id->responder_resources > DEV_MAX_RD_ATOMIC
					? DEV_MAX_RD_ATOMIC
					: id->responder_resources;
	a->min_rnr_timer = 0;
	sr_cm_fill_address(id, &a->ah_attr);
}

static void rts_attr(struct sr_cm_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	a->timeout = sr_cm_ack_timeout(id);
	a->retry_cnt = id->retry_count;
	a->rnr_retry = id->rnr_retry_count;
	a->sq_psn = id->remote_psn;
	a->max_rd_atomic = id->initiator_depth > DEV_MAX_RD_ATOMIC ? DEV_MAX_RD_ATOMIC
								   : id->initiator_depth;
}

SR_API int rdma_init_qp_attr(struct rdma_cm_id *ib, struct ibv_qp_attr *attr, int *mask)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	int r = 0;

	pthread_mutex_lock(&sr_cm_lock);
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		if (sr_cm_is_datagram(id))
			datagram_init_attr(attr, mask);
		else
			init_attr(id, attr, mask);
		break;
	case IBV_QPS_RTR:
		r = id->remote_qpn ? 0 : EINVAL;
		rtr_attr(id, attr, mask);
		break;
	case IBV_QPS_RTS:
		r = id->remote_qpn ? 0 : EINVAL;
		rts_attr(id, attr, mask);
		break;
	default:
		r = EINVAL;
		break;
	}
	pthread_mutex_unlock(&sr_cm_lock);
	return r ? sr_cm_fail(r) : 0;
}

/* ---- completion queues that come with the id -------------------------------- */

static int make_cq(struct sr_cm_id *id, uint32_t size, struct ibv_comp_channel **ch,
		   struct ibv_cq **cq)
{
	*ch = ibv_create_comp_channel(id->ib.verbs);
	if (!*ch)
		return -1;
	*cq = ibv_create_cq(id->ib.verbs, size ? (int)size : 1, id, *ch, 0);
	return *cq ? 0 : -1;
}

static void destroy_cqs(struct sr_cm_id *id)
{
	struct rdma_cm_id *ib = &id->ib;

	if (!id->has_own_cqs)
		return;
	if (ib->send_cq)
		ibv_destroy_cq(ib->send_cq);
	if (ib->recv_cq)
		ibv_destroy_cq(ib->recv_cq);
	if (ib->send_cq_channel)
		ibv_destroy_comp_channel(ib->send_cq_channel);
	if (ib->recv_cq_channel)
		ibv_destroy_comp_channel(ib->recv_cq_channel);
	ib->send_cq = ib->recv_cq = NULL;
	ib->send_cq_channel = ib->recv_cq_channel = NULL;
	id->has_own_cqs = false;
}

static int default_cqs(struct sr_cm_id *id, struct ibv_qp_init_attr_ex *a)
{
	struct rdma_cm_id *ib = &id->ib;

	id->has_own_cqs = !a->send_cq || !a->recv_cq;
	if (!a->recv_cq && make_cq(id, a->cap.max_recv_wr, &ib->recv_cq_channel, &ib->recv_cq))
		return -1;
	if (!a->send_cq && make_cq(id, a->cap.max_send_wr, &ib->send_cq_channel, &ib->send_cq))
		return -1;
	if (!a->recv_cq)
		a->recv_cq = ib->recv_cq;
	if (!a->send_cq)
		a->send_cq = ib->send_cq;
	return 0;
}

/* ---- queue pairs ----------------------------------------------------------- */

static int to_init(struct sr_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask, r;

	if (rdma_init_qp_attr(&id->ib, &attr, &mask))
		return -1;
	r = ibv_modify_qp(qp, &attr, mask);
	return r ? sr_cm_fail(r) : 0;
}

/* As in librdmacm, one for datagrams is ready at once. */
static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int r = ibv_modify_qp(qp, &attr, IBV_QP_STATE);

	attr.qp_state = IBV_QPS_RTS;
	if (!r)
		r = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return r ? sr_cm_fail(r) : 0;
}

SR_API int rdma_create_qp_ex(struct rdma_cm_id *ib, struct ibv_qp_init_attr_ex *a)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	struct ibv_qp *qp;

	if (a->qp_type == IBV_QPT_XRC_SEND || a->qp_type == IBV_QPT_XRC_RECV)
		return sr_cm_fail(EOPNOTSUPP); /* the REQ would carry an SRQ number */
	if (ib->qp || !ib->verbs)
		return sr_cm_fail(EINVAL);
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD)) {
		a->comp_mask |= IBV_QP_INIT_ATTR_PD;
		a->pd = ib->pd;
	}
	if (!a->pd || a->pd->context != ib->verbs)
		return sr_cm_fail(EINVAL);
	ib->pd = a->pd;
	if (!a->srq && ib->srq)
		a->srq = ib->srq;
	if (default_cqs(id, a)) {
		destroy_cqs(id);
		return -1;
	}
	qp = verbs_get_ctx(ib->verbs)->create_qp_ex(ib->verbs, a);
	if (qp && (to_init(id, qp) || (qp->qp_type == IBV_QPT_UD && to_rts(qp)))) {
		ibv_destroy_qp(qp);
		qp = NULL;
	}
	if (!qp) {
		destroy_cqs(id);
		return -1;
	}
	ib->qp = qp;
	return 0;
}

SR_API int rdma_create_qp(struct rdma_cm_id *ib, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex a = sr_qp_attr_ex(init, pd ? pd : ib->pd);
	int r = rdma_create_qp_ex(ib, &a);

	if (!r)
		init->cap = a.cap;
	return r;
}

SR_API void rdma_destroy_qp(struct rdma_cm_id *ib)
{
	ibv_destroy_qp(ib->qp);
	ib->qp = NULL;
	destroy_cqs(sr_to_cm(ib));
}

/* ---- shared receive queues -------------------------------------------------- */

SR_API int rdma_create_srq_ex(struct rdma_cm_id *ib, struct ibv_srq_init_attr_ex *a)
{
	if (a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && a->srq_type != IBV_SRQT_BASIC)
		return sr_cm_fail(EOPNOTSUPP);
	if (!ib->verbs)
		return sr_cm_fail(EINVAL);
	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !a->pd) {
		a->pd = ib->pd;
		a->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	ib->srq = sr_srq_create_ex(ib->verbs, a);
	if (!ib->srq)
		return -1;
	ib->pd = a->pd;
	return 0;
}

SR_API int rdma_create_srq(struct rdma_cm_id *ib, struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct ibv_srq_init_attr_ex a = {
		.srq_context = init->srq_context,
		.attr = init->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = pd ? pd : ib->pd,
	};
	int r = rdma_create_srq_ex(ib, &a);

	if (!r)
		init->attr = a.attr;
	return r;
}

SR_API void rdma_destroy_srq(struct rdma_cm_id *ib)
{
	ibv_destroy_srq(ib->srq);
	ib->srq = NULL;
}
