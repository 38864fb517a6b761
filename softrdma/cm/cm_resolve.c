/* SPDX-License-Identifier: BSD-3-Clause */
/* Binding and resolving: rdma_bind_addr, rdma_resolve_addr, rdma_resolve_route. Any address that is
 * not local ends in ADDR_ERROR: this engine ends at the edge of the host. */
#include "softrdma/cm/sr_cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

SR_API int rdma_bind_addr(struct rdma_cm_id *ib, struct sockaddr *addr)
{
	int r;

	pthread_mutex_lock(&sr_cm_lock);
	r = sr_cm_bind(sr_to_cm(ib), addr);
	pthread_mutex_unlock(&sr_cm_lock);
	return r ? sr_cm_fail(-r) : 0;
}

static void loopback_for_any(struct sockaddr *dst)
{
	if (!sr_cm_is_any(dst))
		return;
	if (dst->sa_family == AF_INET)
		((struct sockaddr_in *)(void *)dst)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)(void *)dst)->sin6_addr = in6addr_loopback;
}

/* The source address of a connection to dst: if the application gave none, dst itself, which is
 * local. */
static int bind_source(struct sr_cm_id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	struct sockaddr_storage s = {0};

	if (id->state != CM_IDLE)
		return sr_cm_set_device(id);
	if (src && src->sa_family && !sr_cm_is_any(src)) {
		memcpy(&s, src, sr_cm_sockaddr_len(src));
	} else {
		memcpy(&s, dst, sr_cm_sockaddr_len(dst));
		sr_cm_set_port((struct sockaddr *)&s, src && src->sa_family ? sr_cm_port(src) : 0);
	}
	return sr_cm_bind(id, (struct sockaddr *)&s);
}

static int resolve(struct sr_cm_id *id, const struct sockaddr *src, const struct sockaddr *dst_in)
{
	struct sockaddr *dst = &id->ib.route.addr.dst_addr;
	int r;

	if (id->state != CM_IDLE && id->state != CM_BOUND)
		return -EINVAL;
	if (dst_in->sa_family != AF_INET && dst_in->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	memcpy(dst, dst_in, sr_cm_sockaddr_len(dst_in));
	loopback_for_any(dst);
	r = sr_cm_check_local(dst);
	if (sr_cm_is_shortage(r))
		return r;
	if (r) { /* this engine ends at the edge of the host */
		sr_cm_raise(id, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
		return 0;
	}
	r = bind_source(id, src, dst);
	if (r)
		return r;
	sr_gid_from_sockaddr(&id->ib.route.addr.src_addr, &id->ib.route.addr.addr.ibaddr.sgid);
	sr_gid_from_sockaddr(dst, &id->ib.route.addr.addr.ibaddr.dgid);
	id->ib.route.addr.addr.ibaddr.pkey = DEV_PKEY;
	id->state = CM_ADDR_RESOLVED;
	sr_cm_raise(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}

SR_API int rdma_resolve_addr(struct rdma_cm_id *ib, struct sockaddr *src, struct sockaddr *dst,
			     int timeout_ms)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	int r;

	pthread_mutex_lock(&sr_cm_lock);
	r = resolve(id, src, dst);
	pthread_mutex_unlock(&sr_cm_lock);
	return sr_cm_wait_sync(id, r ? sr_cm_fail(-r) : 0);
}

static void fill_path(struct ibv_sa_path_rec *p, const struct sr_cm_id *id)
{
	p->dgid = id->ib.route.addr.addr.ibaddr.dgid;
	p->sgid = id->ib.route.addr.addr.ibaddr.sgid;
	p->hop_limit = 64;
	p->reversible = 1;
	p->numb_path = 1;
	p->pkey = DEV_PKEY;
	p->mtu_selector = p->rate_selector = p->packet_life_time_selector = 2; /* exactly */
	p->mtu = IBV_MTU_4096;
	p->rate = IBV_RATE_100_GBPS;
}

SR_API int rdma_resolve_route(struct rdma_cm_id *ib, int timeout_ms)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	int r = 0;

	pthread_mutex_lock(&sr_cm_lock);
	if (id->state != CM_ADDR_RESOLVED) {
		r = EINVAL;
	} else {
		ib->route.path_rec = calloc(1, sizeof(*ib->route.path_rec));
		if (ib->route.path_rec) {
			fill_path(ib->route.path_rec, id);
			ib->route.num_paths = 1;
		}
		id->state = CM_ROUTE_RESOLVED;
		sr_cm_raise(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	}
	pthread_mutex_unlock(&sr_cm_lock);
	return sr_cm_wait_sync(id, r ? sr_cm_fail(r) : 0);
}
