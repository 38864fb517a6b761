/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>

#include "softrdma/cm/cm_mad_message.h"
#include "softrdma/cm/cm_addr.h"
#include "softrdma/cm/cm_mad_conn.h"
#include "softrdma/cm/cm_mad_resolve.h"
#include "softrdma/cm/cm_message.h"
#include "softrdma/cm/cm_qp.h"
#include "softrdma/cm/mad_ip.h"
#include "softrdma/cm/sr_cm.h"
#include "softrdma/verbs/gid.h"

enum {
	RESPONSE_TIMEOUT = 20, /* 4.3 s, as the kernel's cma */
	MAX_RETRIES = 15,
	ACK_DELAY = 10, /* 4 ms: the helper may have to be woken */
	MAX_ACK_TIMEOUT = 21,
	FIRST_QPN = 2, /* 0 and 1 are for management */
	HOP_LIMIT = 64,
};

static void copy_data(uint8_t *to, unsigned room, const struct sr_cm_msg *m)
{
	memcpy(to, m->data, m->data_len < room ? m->data_len : room);
}

static void gid_of(const struct sockaddr *sa, uint8_t ret[16])
{
	union ibv_gid gid;

	sr_gid_from_sockaddr(sa, &gid);
	memcpy(ret, gid.raw, 16);
}

static void put_addresses(const struct sr_cm_id *id, struct mad *ret)
{
	const struct rdma_addr *a = &id->ib.route.addr;
	struct mad_ip ip = {.is_v6 = a->dst_addr.sa_family == AF_INET6,
			    .source_port = sr_cm_port(&a->src_addr)};

	gid_of(&a->src_addr, ip.source);
	gid_of(&a->dst_addr, ip.destination);
	mad_ip_encode(&ip, ret->data);
}

static uint64_t service_id_of(const struct sr_cm_id *id)
{
	return (uint64_t)id->ib.ps << 16 | sr_cm_port(&id->ib.route.addr.dst_addr);
}

void sr_cm_to_req(const struct sr_cm_id *id, const struct sr_cm_msg *from, struct mad *ret)
{
	const struct rdma_addr *a = &id->ib.route.addr;
	struct mad_req *req = &ret->req;

	*ret = (struct mad){.type = MAD_REQ};
	req->service_id = service_id_of(id);
	req->qpn = from->qpn;
	req->psn = from->psn;
	req->responder_resources = from->responder_resources;
	req->initiator_depth = from->initiator_depth;
	req->remote_timeout = req->local_timeout = RESPONSE_TIMEOUT;
	req->max_retries = MAX_RETRIES;
	req->flow_control = from->flow_control & 1;
	req->retry_count = from->retry_count;
	req->rnr_retry_count = from->rnr_retry_count;
	req->srq = from->srq & 1;
	req->path_mtu = (uint8_t)id->path_mtu;
	req->pkey = DEV_PKEY;
	req->primary.local_lid = req->primary.remote_lid = 0xffff; /* there are none */
	gid_of(&a->src_addr, req->primary.local_gid);
	gid_of(&a->dst_addr, req->primary.remote_gid);
	req->primary.hop_limit = HOP_LIMIT;
	req->primary.ack_timeout = sr_cm_ack_timeout(id);
	put_addresses(id, ret);
	copy_data(ret->data + MAD_IP_BYTES, CM_REQ_DATA, from);
}

void sr_cm_to_rep(const struct sr_cm_msg *from, struct mad *ret)
{
	*ret = (struct mad){.type = MAD_REP};
	ret->rep.qpn = from->qpn;
	ret->rep.psn = from->psn;
	ret->rep.responder_resources = from->responder_resources;
	ret->rep.initiator_depth = from->initiator_depth;
	ret->rep.ack_delay = ACK_DELAY;
	ret->rep.flow_control = from->flow_control & 1;
	ret->rep.rnr_retry_count = from->rnr_retry_count;
	ret->rep.srq = from->srq & 1;
	copy_data(ret->data, CM_REP_DATA, from);
}

/* The addresses in a REQ are those between which it travels: nothing else can be answered. */
static uint32_t take_addresses(const struct mad *m, uint64_t service_id,
			       const struct ib_cm_ends *ends, struct sr_cm_msg *ret)
{
	struct mad_ip ip;

	if (mad_ip_decode(m->data, &ip) || memcmp(ip.source, ends->remote, 16) ||
	    memcmp(ip.destination, ends->local, 16))
		return MAD_REASON_UNSUPPORTED;
	sr_cm_gid_to_sockaddr(ip.source, ip.source_port, &ret->src);
	sr_cm_gid_to_sockaddr(ip.destination, MAD_PORT(service_id), &ret->dst);
	return 0;
}

uint32_t sr_cm_from_req(const struct mad *m, const struct ib_cm_ends *ends, struct sr_cm_msg *ret)
{
	const struct mad_req *req = &m->req;

	*ret = (struct sr_cm_msg){.type = CM_MSG_REQ, .data_len = CM_REQ_DATA};
	if (req->transport || req->transport_extended)
		return MAD_REASON_TRANSPORT;
	if (req->qpn < FIRST_QPN || req->path_mtu < IBV_MTU_256 || req->path_mtu > IBV_MTU_4096)
		return MAD_REASON_UNSUPPORTED;
	ret->qpn = req->qpn;
	ret->psn = req->psn;
	ret->responder_resources = req->responder_resources;
	ret->initiator_depth = req->initiator_depth;
	ret->flow_control = req->flow_control;
	ret->retry_count = req->retry_count;
	ret->rnr_retry_count = req->rnr_retry_count;
	ret->srq = req->srq;
	memcpy(ret->data, m->data + MAD_IP_BYTES, CM_REQ_DATA);
	return take_addresses(m, req->service_id, ends, ret);
}

void sr_cm_from_rep(const struct mad *m, struct sr_cm_msg *ret)
{
	const struct mad_rep *rep = &m->rep;

	*ret = (struct sr_cm_msg){.type = CM_MSG_REP, .data_len = CM_REP_DATA};
	ret->qpn = rep->qpn;
	ret->psn = rep->psn;
	ret->responder_resources = rep->responder_resources;
	ret->initiator_depth = rep->initiator_depth;
	ret->flow_control = rep->flow_control;
	ret->rnr_retry_count = rep->rnr_retry_count;
	ret->srq = rep->srq;
	memcpy(ret->data, m->data, CM_REP_DATA);
}

void sr_cm_from_rej(const struct mad *m, struct sr_cm_msg *ret)
{
	*ret = (struct sr_cm_msg){
		.type = CM_MSG_REJ, .reason = m->rej.reason, .data_len = CM_REJ_DATA};
	memcpy(ret->data, m->data, CM_REJ_DATA);
}

uint8_t sr_cm_bound_ack_timeout(uint8_t exponent)
{
	return exponent && exponent < MAX_ACK_TIMEOUT ? exponent : MAX_ACK_TIMEOUT;
}

void sr_cm_to_sidr_req(const struct sr_cm_id *id, const struct sr_cm_msg *from, struct mad *ret)
{
	*ret = (struct mad){.type = MAD_SIDR_REQ};
	ret->sidr_req.pkey = DEV_PKEY;
	ret->sidr_req.service_id = service_id_of(id);
	put_addresses(id, ret);
	copy_data(ret->data + MAD_IP_BYTES, CM_SIDR_REQ_DATA, from);
}

uint32_t sr_cm_from_sidr_req(const struct mad *m, const struct ib_cm_ends *ends,
			     struct sr_cm_msg *ret)
{
	*ret = (struct sr_cm_msg){.type = CM_MSG_REQ, .data_len = CM_SIDR_REQ_DATA};
	memcpy(ret->data, m->data + MAD_IP_BYTES, CM_SIDR_REQ_DATA);
	return take_addresses(m, m->sidr_req.service_id, ends, ret);
}

void sr_cm_to_sidr_rep(const struct sr_cm_msg *from, struct mad *ret)
{
	*ret = (struct mad){.type = MAD_SIDR_REP};
	ret->sidr_rep.qpn = from->qpn;
	ret->sidr_rep.qkey = from->qkey;
	copy_data(ret->data, CM_SIDR_REP_DATA, from);
}

void sr_cm_from_sidr_rep(const struct mad *m, struct sr_cm_msg *ret)
{
	*ret = (struct sr_cm_msg){
		.type = CM_MSG_REP, .data_len = CM_SIDR_REP_DATA, .qpn = m->sidr_rep.qpn};
	ret->qkey = m->sidr_rep.qkey;
	memcpy(ret->data, m->data, CM_SIDR_REP_DATA);
}
