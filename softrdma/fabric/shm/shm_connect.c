/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/fabric/seek.h"
#include "softrdma/fabric/shm/shm.h"
#include "softrdma/fabric/shm/shm_connect.h"

struct sr_peer *sr_shm_find(uint32_t qpn)
{
	struct sr_peer *found = NULL;

	sr_peer_by_qpn(qpn, &found);
	return found;
}

void sr_shm_connect(struct sr_qp *qp, struct sr_peer *found)
{
	if (!found || qp->end.peer)
		return;
	qp->end.slot = seg_qp_slot(found->seg, qp->attr.dest_qp_num);
	qp->end.remote = &found->seg->qp[qp->end.slot];
	qp->end.peer = sr_peer_ref(found);
}

void sr_shm_seek(struct sr_qp *qp)
{
	struct sr_peer *p = sr_peer_known(qp->attr.dest_qp_num);

	if (!p) {
		sr_peer_seek(qp->attr.dest_qp_num, qp->slot);
		return;
	}
	sr_shm_connect(qp, p);
	sr_peer_unref(p);
}

void sr_shm_disconnect(struct sr_qp *qp)
{
	sr_peer_unref(qp->end.peer);
	qp->end.peer = NULL;
	qp->end.remote = NULL;
}

bool sr_shm_is_connected(const struct sr_qp *qp)
{
	return qp->end.peer;
}

void sr_shm_kick(struct sr_qp *qp)
{
	struct sr_peer *p = qp->end.peer;

	if (p && !atomic_load(&p->is_dead))
		sr_peer_kick_qp(p, qp->end.slot, SEG_EV_RESUME);
}

uint32_t sr_shm_rnr_timer(const struct sr_qp *qp)
{
	return qp->end.remote ? qp->end.remote->min_rnr_timer & 31 : 0;
}
