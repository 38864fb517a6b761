/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binding and resolving: rdma_bind_addr, rdma_resolve_addr, rdma_resolve_route. An address of this
 * host is reached by a socket. Any other is reached by MADs where RoCE is allowed, and ends in
 * ADDR_ERROR where not.
 */
#include "softrdma/cm/cm_addr.h"
#include "softrdma/cm/cm_calls.h"
#include "softrdma/cm/cm_device.h"
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_mad_resolve.h"
#include "softrdma/cm/cm_queue.h"
#include "softrdma/cm/cm_socket.h"
#include "softrdma/cm/ib_cm_table.h"
#include "softrdma/cm/sr_cm.h"
#include "softrdma/cm/cm_mads.h"
#include "softrdma/cm/cm_multicast.h"
#include "softrdma/cm/cm_sidr.h"
#include "softrdma/verbs/gid.h"

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

/* A destination, as known before the id is locked. */
struct found {
	int r;			       /* of sr_cm_check_local */
	int far;		       /* of sr_cm_find_far, if it is not local */
	bool is_group;		       /* a multicast address */
	struct sockaddr_storage local; /* then: the address of this side */
};

static bool is_inet(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET || sa->sa_family == AF_INET6;
}

static bool is_group(const struct sockaddr *sa)
{
	union ibv_gid gid;

	sr_gid_from_sockaddr(sa, &gid);
	return sr_gid_is_multicast(&gid);
}

/* Without sr_cm_lock: to open an address may take another process' help. */
static struct found find(struct sr_cm_id *id, const struct sockaddr *src,
			 const struct sockaddr *dst)
{
	const struct sockaddr *bound = &id->ib.route.addr.src_addr;
	struct found f = {.far = -EHOSTUNREACH};

	if (!is_inet(dst) || sr_cm_is_any(dst))
		return f;
	if (is_group(dst)) {
		f.is_group = true;
		f.far = sr_cm_group_source(dst, &f.local);
		return f;
	}
	f.r = sr_cm_check_local(dst);
	if (f.r && !sr_cm_is_shortage(f.r) &&
	    (id->ib.ps == RDMA_PS_TCP || id->ib.ps == RDMA_PS_UDP))
		f.far = sr_cm_find_far(bound->sa_family ? bound : src, dst, &f.local);
	return f;
}

/* The id was bound to the wildcard: now its address is known. */
static void name_source(struct sr_cm_id *id, const struct sockaddr *local)
{
	struct sockaddr *src = &id->ib.route.addr.src_addr;
	uint16_t port = sr_cm_port(src);

	if (!sr_cm_is_any(src))
		return;
	memcpy(src, local, sr_cm_sockaddr_len(local));
	sr_cm_set_port(src, port);
}

static int resolve_far(struct sr_cm_id *id, const struct sockaddr *dst, const struct found *f)
{
	const struct sockaddr *local = (const struct sockaddr *)&f->local;
	int r;

	if (f->far) {
		sr_cm_raise(id, RDMA_CM_EVENT_ADDR_ERROR, f->far);
		return 0;
	}
	r = bind_source(id, local, dst);
	if (r)
		return r;
	name_source(id, local);
	id->way = sr_cm_is_datagram(id) ? &sr_cm_by_sidr : &sr_cm_by_mads;
	return 1;
}

/* Datagrams to a group leave from this host's first address, or the one that the program names. */
static int resolve_group(struct sr_cm_id *id, const struct sockaddr *src,
			 const struct sockaddr *dst, const struct found *f)
{
	const struct sockaddr *local = (const struct sockaddr *)&f->local;
	bool is_named = src && src->sa_family && !sr_cm_is_any(src);
	int r = f->far ? f->far : bind_source(id, is_named ? src : local, dst);

	if (!r)
		name_source(id, local);
	return r ? r : sr_cm_set_device(id);
}

static int resolve(struct sr_cm_id *id, const struct sockaddr *src, const struct sockaddr *dst_in,
		   const struct found *f)
{
	struct sockaddr *dst = &id->ib.route.addr.dst_addr;
	int r;

	if (id->state != CM_IDLE && id->state != CM_BOUND)
		return -EINVAL;
	if (!is_inet(dst_in))
		return -EAFNOSUPPORT;
	memcpy(dst, dst_in, sr_cm_sockaddr_len(dst_in));
	loopback_for_any(dst);
	if (sr_cm_is_shortage(f->r))
		return f->r;
	if (f->is_group)
		r = resolve_group(id, src, dst, f);
	else
		r = f->r ? resolve_far(id, dst, f) : bind_source(id, src, dst);
	if (r < 0 || (f->r && !r))
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
	struct found f = find(id, src, dst);
	int r;

	pthread_mutex_lock(&sr_cm_lock);
	r = resolve(id, src, dst, &f);
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
	p->mtu = (uint8_t)id->path_mtu;
	p->rate = IBV_RATE_100_GBPS;
}

SR_API int rdma_resolve_route(struct rdma_cm_id *ib, int timeout_ms)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	struct ib_cm_ends ends;
	int r = 0;

	pthread_mutex_lock(&sr_cm_lock);
	if (id->state != CM_ADDR_RESOLVED) {
		r = EINVAL;
	} else {
		if (id->way != &sr_cm_by_socket) {
			sr_cm_ends(id, &ends);
			id->path_mtu = sr_cm_path_mtu(&ends);
		}
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
