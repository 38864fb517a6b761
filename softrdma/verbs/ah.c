/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles: where datagrams go. As on every RoCE device the address is a GID. The engine
 * that reaches it is chosen here, on the application's thread, because opening a port or meeting
 * the processes of this host may wait.
 */
#include "softrdma/verbs/ah.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/fabric/engine.h"
#include "softrdma/fabric/seek.h"
#include "softrdma/verbs/gid.h"

static bool is_own(const union ibv_gid *gid)
{
	union ibv_gid at;

	for (int i = 0, n = sr_gid_count(); i < n; i++)
		if (!sr_gid_at(i, &at, NULL) && !memcmp(&at, gid, sizeof(at)))
			return true;
	return false;
}

/* 0 or an errno value. */
static int find(struct sr_address *to, const struct ibv_ah_attr *attr)
{
	if (attr->port_num != 1 || !attr->is_global ||
	    sr_gid_at(attr->grh.sgid_index, &to->local, NULL))
		return EINVAL;
	to->remote = attr->grh.dgid;
	to->is_multicast = sr_gid_is_multicast(&to->remote);
	to->traffic_class = attr->grh.traffic_class;
	to->flow_label = attr->grh.flow_label & 0xfffff;
	to->hop_limit = attr->grh.hop_limit;
	to->sl = attr->sl;
	if (to->is_multicast)
		sr_peer_meet_all(); /* those that have joined before */
	to->engine = to->is_multicast || is_own(&to->remote)
			     ? sr_engine()
			     : sr_engine_to(&to->local, &to->remote);
	return to->engine ? 0 : EHOSTUNREACH;
}

SR_API struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct sr_ah *ah = calloc(1, sizeof(*ah));
	int err = ah ? find(&ah->to, attr) : ENOMEM;

	if (err) {
		free(ah);
		errno = err;
		return NULL;
	}
	ah->ib.context = pd->context;
	ah->ib.pd = pd;
	atomic_fetch_add(&sr_to_pd(pd)->users, 1);
	return &ah->ib;
}

SR_API int ibv_destroy_ah(struct ibv_ah *ib)
{
	atomic_fetch_sub(&sr_to_pd(ib->pd)->users, 1);
	free(sr_to_ah(ib));
	return 0;
}

static int index_of(const union ibv_gid *gid)
{
	union ibv_gid at;

	for (int i = 0, n = sr_gid_count(); i < n; i++)
		if (!sr_gid_at(i, &at, NULL) && !memcmp(&at, gid, sizeof(at)))
			return i;
	return -1;
}

SR_API int ibv_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc,
			       struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct sr_address from;
	int index;

	if (port != 1 || !(wc->wc_flags & IBV_WC_GRH)) {
		errno = EINVAL;
		return -1;
	}
	sr_grh_read((const uint8_t *)grh, &from);
	index = index_of(&from.local);
	if (index < 0) {
		errno = EINVAL;
		return -1;
	}
	*attr = (struct ibv_ah_attr){
		.grh = {.dgid = from.remote,
			.flow_label = from.flow_label,
			.sgid_index = (uint8_t)index,
			.hop_limit = 64,
			.traffic_class = from.traffic_class},
		.sl = wc->sl,
		.is_global = 1,
		.port_num = port,
	};
	return 0;
}

SR_API struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
					    struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL
								      : ibv_create_ah(pd, &attr);
}

SR_API int ibv_resolve_eth_l2_from_gid(struct ibv_context *c, struct ibv_ah_attr *attr,
				       uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	errno = EOPNOTSUPP; /* there is no Ethernet header that the program could fill */
	return -1;
}
