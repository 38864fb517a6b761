/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/fabric/shm/shm.h"

#include <string.h>

#include "softrdma/fabric/seek.h"
#include "softrdma/fabric/shm/shm_datagram.h"
#include "softrdma/trace/trace.h"
#include "softrdma/trace/trace_datagram.h"
#include "softrdma/verbs/datagram.h"
#include "softrdma/verbs/datagram_in.h"

enum {
	MEMBERS_AT_MOST = 256, /* processes that one multicast datagram reaches */
};

static void deliver_group(struct sr_peer *p, const struct sr_datagram *d)
{
	uint32_t n = atomic_load(&p->seg->n_members);

	for (uint32_t i = 0; i < n && i < SEG_MAX_MEMBER; i++) {
		const struct seg_member *m = &p->seg->member[i];
		uint32_t slot = atomic_load(&m->qp_slot);

		if (slot && slot <= SEG_MAX_QP && !memcmp(m->gid, d->address->remote.raw, 16))
			sr_datagram_deliver(p, slot - 1, d);
	}
}

static void send_to_group(const struct sr_datagram *d)
{
	struct sr_peer *peers[MEMBERS_AT_MOST];
	unsigned n = sr_peer_list(peers, MEMBERS_AT_MOST);

	for (unsigned i = 0; i < n; i++) {
		deliver_group(peers[i], d);
		sr_peer_unref(peers[i]);
	}
}

static bool owns(const struct sr_peer *p, uint32_t qpn)
{
	uint32_t n = atomic_load(&p->seg->n_base);

	for (uint32_t i = 0; i < n && i < SEG_MAX_BASE; i++)
		if (p->seg->base[i] == qpn >> 8)
			return !atomic_load(&p->is_dead);
	return false;
}

/* The owner of the receiver; the last one is kept, as most queue pairs send to few. */
static struct sr_peer *owner_of(struct sr_qp *qp, uint32_t qpn)
{
	struct sr_peer *known = qp->end.peer;

	if (known && owns(known, qpn))
		return known;
	known = sr_peer_known(qpn);
	if (known) {
		sr_peer_unref(qp->end.peer);
		qp->end.peer = known;
	}
	return known;
}

bool sr_shm_send(struct sr_qp *qp, const struct sr_datagram *d)
{
	struct sr_peer *owner;

	if (d->address->is_multicast) {
		if (trace_on())
			trace_datagram(d);
		send_to_group(d);
		return true;
	}
	owner = owner_of(qp, d->qpn);
	if (!owner && sr_peer_seek(d->qpn, qp->slot))
		return false;
	if (trace_on())
		trace_datagram(d);
	if (owner)
		sr_datagram_deliver(owner, seg_qp_slot(owner->seg, d->qpn), d);
	return true;
}
