/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups of ids for datagrams. To join succeeds at once: no switch has to be asked. As in
 * librdmacm, the queue pair is attached when the program fetches the event.
 */
#include "softrdma/cm/cm_addr.h"
#include "softrdma/cm/cm_calls.h"
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_mad_resolve.h"
#include "softrdma/cm/cm_multicast.h"
#include "softrdma/cm/cm_qp.h"
#include "softrdma/cm/cm_queue.h"
#include "softrdma/cm/sr_cm.h"
#include "softrdma/verbs/gid.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool may_join(const struct sr_cm_id *id)
{
	return id->device && sr_cm_is_datagram(id) &&
	       (id->state == CM_BOUND || id->state == CM_ADDR_RESOLVED ||
		id->state == CM_ROUTE_RESOLVED);
}

static struct sr_cm_event *joined(struct sr_cm_id *id, const union ibv_gid *gid, void *context)
{
	struct sr_cm_event *e = sr_cm_event_new(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	struct rdma_ud_param *p;

	if (!e)
		return NULL;
	p = &e->ev.param.ud;
	p->private_data = context;
	sr_cm_fill_address(id, &p->ah_attr);
	p->ah_attr.grh.dgid = *gid;
	p->qp_num = SR_MULTICAST_QPN;
	p->qkey = RDMA_UDP_QKEY;
	return e;
}

/* Under sr_cm_lock. 0 or an errno value. */
static int join(struct sr_cm_id *id, const struct sockaddr *addr, void *context)
{
	struct sr_group *g;
	struct sr_cm_event *e;

	if (!may_join(id) || (addr->sa_family != AF_INET && addr->sa_family != AF_INET6))
		return EINVAL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return ENOMEM;
	memcpy(&g->addr, addr, sr_cm_sockaddr_len(addr));
	sr_gid_from_sockaddr(addr, &g->gid);
	e = sr_gid_is_multicast(&g->gid) ? joined(id, &g->gid, context) : NULL;
	if (!e) {
		free(g);
		return EINVAL;
	}
	g->next = id->groups;
	id->groups = g;
	sr_cm_event_queue(id->ib.channel, e);
	return 0;
}

SR_API int rdma_join_multicast(struct rdma_cm_id *ib, struct sockaddr *addr, void *context)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	int r;

	pthread_mutex_lock(&sr_cm_lock);
	r = join(id, addr, context);
	pthread_mutex_unlock(&sr_cm_lock);
	return sr_cm_wait_sync(id, r ? sr_cm_fail(r) : 0);
}

SR_API int rdma_join_multicast_ex(struct rdma_cm_id *ib, struct rdma_cm_join_mc_attr_ex *attr,
				  void *context)
{
	const uint32_t needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if (attr->comp_mask != needed || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return sr_cm_fail(EINVAL);
	return rdma_join_multicast(ib, attr->addr, context);
}

/* Unlinks the group with that address. Under sr_cm_lock. */
static struct sr_group *take(struct sr_cm_id *id, const struct sockaddr *addr)
{
	struct sr_group **p = &id->groups, *g;

	while (*p && memcmp(&(*p)->addr, addr, sr_cm_sockaddr_len(addr)) != 0)
		p = &(*p)->next;
	g = *p;
	if (g)
		*p = g->next;
	return g;
}

SR_API int rdma_leave_multicast(struct rdma_cm_id *ib, struct sockaddr *addr)
{
	struct sr_group *g;

	pthread_mutex_lock(&sr_cm_lock);
	g = take(sr_to_cm(ib), addr);
	pthread_mutex_unlock(&sr_cm_lock);
	if (!g)
		return sr_cm_fail(EADDRNOTAVAIL);
	if (ib->qp)
		ibv_detach_mcast(ib->qp, &g->gid, 0);
	free(g);
	return 0;
}

int sr_cm_group_source(const struct sockaddr *dst, struct sockaddr_storage *ret)
{
	union ibv_gid gid;

	for (int i = 0, n = sr_gid_count(); i < n; i++) {
		if (sr_gid_at(i, &gid, NULL) || sr_gid_is_ip4(&gid) != (dst->sa_family == AF_INET))
			continue;
		memset(ret, 0, sizeof(*ret));
		sr_cm_gid_to_sockaddr(gid.raw, 0, (struct sockaddr_in6 *)(void *)ret);
		return 0;
	}
	return -EADDRNOTAVAIL;
}
