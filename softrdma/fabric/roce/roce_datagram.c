/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams to and from other hosts: one packet each. Nothing is remembered of a peer, neither a
 * window nor its IPv4 identifiers, so a peer costs nothing.
 */
#include "softrdma/fabric/roce/batch.h"
#include "softrdma/fabric/roce/roce_datagram.h"
#include "softrdma/verbs/datagram_in.h"
#include "softrdma/verbs/gid.h"

#include <netinet/in.h>
#include <string.h>

bool roce_reaches(const union ibv_gid *local, const union ibv_gid *remote)
{
	struct roce_port *port;

	return roce_gid_is_ip4(local) == roce_gid_is_ip4(remote) && roce_allows(local) &&
	       !roce_port_open(local, &port);
}

bool roce_send_datagram(struct sr_qp *qp, const struct sr_datagram *d)
{
	struct roce_port *port = roce_port_find(&d->address->local);
	struct roce_packet p = {
		.opcode = d->has_imm ? ROCE_UD_SEND_ONLY_IMM : ROCE_UD_SEND_ONLY,
		.solicited = d->is_solicited,
		.dest_qpn = d->qpn,
		.psn = d->psn,
		.imm = d->imm,
		.q_key = d->qkey,
		.source_qpn = d->source_qpn,
		.payload_bytes = d->length,
	};
	struct roce_batch *b;
	struct roce_way way;
	uint8_t *at, *to;

	if (!port || d->length > ROCE_MTU_MAX)
		return true;
	way = roce_way_from_port(port, &d->address->remote);
	b = roce_batch_begin();
	at = roce_batch_room(b);
	to = at + roce_packet_encode(&p, at);
	for (unsigned i = 0; i < d->n_data; to += d->data[i++].iov_len)
		memcpy(to, d->data[i].iov_base, d->data[i].iov_len);
	memset(to, 0, roce_pad_bytes(d->length));
	roce_batch_add(b, &way, (size_t)(to - at) + roce_pad_bytes(d->length));
	roce_batch_end(b);
	return true;
}

static bool is_for_others(const union ibv_gid *gid)
{
	struct in6_addr in6;

	memcpy(&in6, gid, sizeof(in6));
	if (roce_gid_is_ip4(gid))
		return gid->raw[12] != 127;
	return !IN6_IS_ADDR_LOOPBACK(&in6) && !IN6_IS_ADDR_LINKLOCAL(&in6);
}

bool roce_open_all(void)
{
	struct roce_port *port;
	union ibv_gid gid;
	bool any = false;

	if (!roce_allows(NULL))
		return false;
	for (int i = 0, n = sr_gid_count(); i < n; i++)
		if (!sr_gid_at(i, &gid, NULL) && is_for_others(&gid) && roce_allows(&gid))
			any |= !roce_port_open(&gid, &port);
	return any;
}

void roce_on_datagram(struct roce_port *port, const union ibv_gid *from,
		      const struct roce_packet *p)
{
	uint32_t slot = seg_qp_slot(seg_self, p->dest_qpn);
	struct sr_address address = {.local = *from, .remote = port->gid, .hop_limit = 64};
	struct iovec data = {(void *)(uintptr_t)p->payload, p->payload_bytes};
	struct sr_datagram d = {
		.address = &address,
		.qpn = p->dest_qpn,
		.qkey = p->q_key,
		.source_qpn = p->source_qpn,
		.psn = p->psn,
		.imm = p->imm,
		.has_imm = roce_traits(p->opcode) & ROCE_HAS_IMM,
		.is_solicited = p->solicited,
		.data = &data,
		.n_data = 1,
		.length = p->payload_bytes,
	};

	if (p->dest_qpn != SR_MULTICAST_QPN && p->payload_bytes <= ROCE_MTU_MAX)
		sr_datagram_deliver(sr_peer_self, slot, &d);
}
