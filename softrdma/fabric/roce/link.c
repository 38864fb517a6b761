/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and ending links, and their part in the window of a peer; see link.h. */
#include "softrdma/fabric/roce/batch.h"
#include "softrdma/fabric/roce/link.h"
#include "softrdma/verbs/gid.h"

#include <stdlib.h>

/* Where the queue pair sends from and to: its address vector. */
static bool find_ends(struct roce_link *l, const struct ibv_qp_attr *a)
{
	union ibv_gid local;

	if (sr_gid_at(a->ah_attr.grh.sgid_index, &local, NULL))
		return false;
	l->port = roce_port_find(&local);
	l->peer = l->port ? roce_peer_get(&local, l->port->scope, &a->ah_attr.grh.dgid) : NULL;
	if (!l->peer)
		return false;
	l->way = roce_way_from_port(l->port, &l->peer->gid);
	if (l->peer->sock >= 0) { /* without a descriptor left: easier to guess */
		l->way.sock = l->peer->sock;
		l->way.source_port = l->peer->source_port;
	}
	return true;
}

struct roce_link *roce_link_new(const struct sr_qp *qp)
{
	const struct ibv_qp_attr *a = &qp->attr;
	struct roce_link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->ring = calloc(qp->wqe_mask + 1ULL, sizeof(*l->ring));
	l->saved = calloc(roce_responder_ring(a->max_dest_rd_atomic), sizeof(*l->saved));
	if (!l->ring || !l->saved || !find_ends(l, a)) {
		roce_link_free(l);
		return NULL;
	}
	l->dest_qpn = a->dest_qp_num;
	roce_responder_init(&l->r, 128u << a->path_mtu, a->rq_psn, a->max_dest_rd_atomic,
			    a->min_rnr_timer, l->saved);
	return l;
}

void roce_link_abandon(struct roce_link *l)
{
	pthread_mutex_lock(&l->peer->lock);
	roce_window_forget(&l->peer->window, l->counted);
	pthread_mutex_unlock(&l->peer->lock);
	l->counted = l->q.in_flight = 0;
}

void roce_link_free(struct roce_link *l)
{
	if (!l)
		return;
	roce_peer_put(l->peer);
	free(l->ring);
	free(l->saved);
	free(l);
}

uint64_t roce_link_room(const struct roce_link *l)
{
	uint64_t room;

	pthread_mutex_lock(&l->peer->lock);
	room = roce_window_room(&l->peer->window);
	pthread_mutex_unlock(&l->peer->lock);
	return room;
}

void roce_link_account(struct roce_link *l, uint64_t now)
{
	struct roce_window *w = &l->peer->window;
	bool lost = l->q.n_losses != l->losses;
	uint64_t in_flight = l->q.in_flight;

	if (in_flight == l->counted && !lost)
		return;
	pthread_mutex_lock(&l->peer->lock);
	if (l->q.srtt_ns)
		l->peer->srtt_ns = l->q.srtt_ns;
	if (lost) { /* what was in flight counts no more */
		roce_window_forget(w, l->counted);
		roce_window_sent(w, in_flight);
		roce_window_cut(w, now, l->peer->srtt_ns);
	} else if (in_flight < l->counted) {
		roce_window_acked(w, l->counted - in_flight);
	} else {
		roce_window_sent(w, in_flight - l->counted);
	}
	pthread_mutex_unlock(&l->peer->lock);
	l->counted = in_flight;
	l->losses = l->q.n_losses;
}
