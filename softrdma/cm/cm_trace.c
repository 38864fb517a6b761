/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communication id consists of values that both sides know of each other: queue pair number and
 * packet sequence number.
 */
#include "softrdma/cm/cm_message.h"
#include "softrdma/cm/sr_cm.h"

#include <string.h>
#include <sys/param.h>

#include "softrdma/cm/cm_qp.h"
#include "softrdma/cm/cm_trace.h"
#include "softrdma/trace/trace_file.h"
#include "softrdma/trace/trace_packet.h"
#include "softrdma/process/likeness.h"
#include "softrdma/trace/trace_rc.h"
#include "softrdma/verbs/gid.h"

enum {
	MAD_REQ = 0x10,
	MAD_REJ = 0x12,
	MAD_REP = 0x13,
	MAD_RTU = 0x14,
	MAD_DREQ = 0x15,
	MAD_DREP = 0x16,
	MAD_SIZE = 256,
	UD_SEND_ONLY = 0x64,
	ARI = 72, /* additional information on a rejection */
};

#define GSI_QKEY   0x80010000u
#define RDMA_IP_CM 0x0000000001000000ULL /* service ids: protocol and port follow */

static const uint8_t mad_of[] = {
	[CM_MSG_REQ] = MAD_REQ, [CM_MSG_REP] = MAD_REP,	  [CM_MSG_RTU] = MAD_RTU,
	[CM_MSG_REJ] = MAD_REJ, [CM_MSG_DREQ] = MAD_DREQ, [CM_MSG_DREP] = MAD_DREP,
};

static uint32_t comm_id(uint32_t qpn, uint32_t psn)
{
	return qpn << 24 | (psn & 0xffffff);
}

static uint16_t port_of(const struct sockaddr *sa)
{
	return be16toh(sa->sa_family == AF_INET6
			       ? ((const struct sockaddr_in6 *)(const void *)sa)->sin6_port
			       : ((const struct sockaddr_in *)(const void *)sa)->sin_port);
}

/* Annex A11: the addresses, in front of the consumer's private data. */
static void add_ip_header(struct trace_packet *p, const struct sr_cm_id *id,
			  const struct trace_flow *f)
{
	const struct rdma_addr *a = &id->ib.route.addr;
	bool v6 = a->dst_addr.sa_family == AF_INET6;
	const union ibv_gid *ends[] = {&f->from, &f->to};

	trace_packet_add16(p, v6 ? 6 << 4 : 4 << 4); /* version 0.0; IP version */
	trace_packet_add16(p, port_of(&a->src_addr));
	for (int i = 0; i < 2; i++) {
		uint8_t *at = trace_packet_add(p, 16);

		if (v6)
			memcpy(at, ends[i]->raw, 16);
		else
			memcpy(at + 12, ends[i]->raw + 12, 4);
	}
}

static void add_req(struct trace_packet *p, const struct sr_cm_id *id, const struct sr_cm_msg *m)
{
	const struct rdma_addr *a = &id->ib.route.addr;
	struct trace_flow f;

	sr_gid_from_sockaddr(&a->src_addr, &f.from);
	sr_gid_from_sockaddr(&a->dst_addr, &f.to);
	trace_packet_add32(p, comm_id(m->qpn, m->psn));
	trace_packet_add32(p, 0);
	trace_packet_add64(p,
			   RDMA_IP_CM | (uint64_t)(id->ib.ps & 0xff) << 16 | port_of(&a->dst_addr));
	trace_packet_add64(p, be64toh(ibv_get_device_guid(sr_incarnation(0))));
	trace_packet_add32(p, 0);
	trace_packet_add32(p, 0); /* Q_Key */
	trace_packet_add32(p, m->qpn << 8 | m->responder_resources);
	trace_packet_add32(p, m->initiator_depth);
	trace_packet_add32(p, 20u << 3 | (m->flow_control & 1)); /* time-out; service RC */
	trace_packet_add32(p, m->psn << 8 | 20 << 3 | (m->retry_count & 7));
	trace_packet_add16(p, DEV_PKEY);
	*trace_packet_add(p, 1) = (uint8_t)(IBV_MTU_4096 << 4 | (m->rnr_retry_count & 7));
	*trace_packet_add(p, 1) = (uint8_t)(15 << 4 | (m->srq & 1) << 3);
	trace_packet_add32(p, 0xffffffff); /* permissive LIDs: there are none on Ethernet */
	memcpy(trace_packet_add(p, 16), f.from.raw, 16);
	memcpy(trace_packet_add(p, 16), f.to.raw, 16);
	trace_packet_add32(p, 0);  /* flow label, rate */
	trace_packet_add16(p, 64); /* traffic class, hop limit */
	trace_packet_add16(p, (uint32_t)sr_cm_ack_timeout(id) << 3);
	trace_packet_add(p, 44); /* no alternate path */
	add_ip_header(p, id, &f);
	memcpy(trace_packet_add(p, CM_REQ_DATA), m->data, MIN(m->data_len, CM_REQ_DATA));
}

/* The two ids that begin all messages but the REQ. */
static void add_ids(struct trace_packet *p, const struct sr_cm_id *id)
{
	trace_packet_add32(p, id->local_psn ? comm_id(id->local_qpn, id->local_psn) : 0);
	trace_packet_add32(p, comm_id(id->remote_qpn, id->remote_psn));
}

static void add_rep(struct trace_packet *p, const struct sr_cm_id *id, const struct sr_cm_msg *m)
{
	add_ids(p, id);
	trace_packet_add32(p, 0); /* Q_Key */
	trace_packet_add32(p, m->qpn << 8);
	trace_packet_add32(p, 0);
	trace_packet_add32(p, m->psn << 8);
	*trace_packet_add(p, 1) = m->responder_resources;
	*trace_packet_add(p, 1) = m->initiator_depth;
	*trace_packet_add(p, 1) = m->flow_control & 1;
	*trace_packet_add(p, 1) = (uint8_t)((m->rnr_retry_count & 7) << 5 | (m->srq & 1) << 4);
	trace_packet_add64(p, be64toh(ibv_get_device_guid(sr_incarnation(0))));
	memcpy(trace_packet_add(p, CM_REP_DATA), m->data, MIN(m->data_len, CM_REP_DATA));
}

static void add_rej(struct trace_packet *p, const struct sr_cm_id *id, const struct sr_cm_msg *m)
{
	add_ids(p, id);
	trace_packet_add16(p, 0); /* which message: the REQ */
	trace_packet_add16(p, m->reason);
	trace_packet_add(p, ARI);
	memcpy(trace_packet_add(p, CM_REJ_DATA), m->data, MIN(m->data_len, CM_REJ_DATA));
}

static void add_mad(struct trace_packet *p, const struct sr_cm_id *id, const struct sr_cm_msg *m)
{
	unsigned start = p->len;
	uint32_t tid = m->type == CM_MSG_REQ ? m->psn : id->remote_psn;

	trace_packet_add32(p, 0x01070203); /* version 1, class CM version 2, Send */
	trace_packet_add32(p, 0);
	trace_packet_add64(p, tid);
	trace_packet_add16(p, mad_of[m->type]);
	trace_packet_add16(p, 0);
	trace_packet_add32(p, 0);
	if (m->type == CM_MSG_REQ) {
		add_req(p, id, m);
	} else if (m->type == CM_MSG_REP) {
		add_rep(p, id, m);
	} else if (m->type == CM_MSG_REJ) {
		add_rej(p, id, m);
	} else {
		add_ids(p, id);
		if (m->type == CM_MSG_DREQ)
			trace_packet_add32(p, id->remote_qpn << 8);
	}
	trace_packet_add(p, MAD_SIZE - (p->len - start));
}

void sr_cm_trace(const struct sr_cm_id *id, const struct sr_cm_msg *m)
{
	static const struct trace_bth to_gsi = {.opcode = UD_SEND_ONLY, .dest_qpn = 1};
	const struct rdma_addr *a = &id->ib.route.addr;
	struct trace_packet p;
	struct trace_flow f;

	if (!a->src_addr.sa_family || !a->dst_addr.sa_family)
		return; /* refused before the sender was known */
	sr_gid_from_sockaddr(&a->src_addr, &f.from);
	sr_gid_from_sockaddr(&a->dst_addr, &f.to);
	trace_begin();
	if (m->type == CM_MSG_REQ || m->type == CM_MSG_REP)
		trace_know(m->qpn, &f);
	trace_packet_begin(&p, &f, &to_gsi);
	trace_packet_add32(&p, GSI_QKEY);
	trace_packet_add32(&p, 1); /* from the GSI, too */
	add_mad(&p, id, m);
	trace_packet_end(&p);
	trace_end();
}
