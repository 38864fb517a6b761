/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address information and end points: rdma_getaddrinfo, rdma_create_ep and the
 * synchronous way of accepting, rdma_get_request.
 */
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/sr_cm.h"

#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

enum {
	RESOLVE_TIMEOUT_MS = 2000
};

/* ---- rdma_getaddrinfo ------------------------------------------------------- */

static int copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from,
		     socklen_t len)
{
	*to = malloc(len);
	if (!*to)
		return -1;
	memcpy(*to, from, len);
	*to_len = len;
	return 0;
}

static void defaults(struct rdma_addrinfo *r, const struct rdma_addrinfo *hints)
{
	r->ai_port_space = hints && hints->ai_port_space ? hints->ai_port_space : RDMA_PS_TCP;
	r->ai_qp_type = hints && hints->ai_qp_type	  ? hints->ai_qp_type
			: r->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD
							  : IBV_QPT_RC;
}

static int to_rai(struct rdma_addrinfo *r, const struct addrinfo *ai,
		  const struct rdma_addrinfo *hints)
{
	defaults(r, hints);
	r->ai_family = ai->ai_family;
	if (hints && hints->ai_flags & RAI_PASSIVE) {
		r->ai_flags = RAI_PASSIVE;
		return copy_addr(&r->ai_src_addr, &r->ai_src_len, ai->ai_addr, ai->ai_addrlen);
	}
	if (hints && hints->ai_src_len &&
	    copy_addr(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr, hints->ai_src_len))
		return -1;
	return copy_addr(&r->ai_dst_addr, &r->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
}

static int family_hint(const struct rdma_addrinfo *hints)
{
	if (hints && (hints->ai_flags & RAI_FAMILY || hints->ai_family == AF_INET ||
		      hints->ai_family == AF_INET6))
		return hints->ai_family;
	return AF_UNSPEC;
}

/* Only addresses in the hints, no name to look up. */
static int from_hints(struct rdma_addrinfo *r, const struct rdma_addrinfo *hints)
{
	defaults(r, hints);
	r->ai_flags = hints->ai_flags;
	if (hints->ai_src_len &&
	    copy_addr(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr, hints->ai_src_len))
		return -1;
	if (hints->ai_dst_len &&
	    copy_addr(&r->ai_dst_addr, &r->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len))
		return -1;
	r->ai_family = r->ai_dst_addr	? r->ai_dst_addr->sa_family
		       : r->ai_src_addr ? r->ai_src_addr->sa_family
					: AF_UNSPEC;
	return 0;
}

SR_API void rdma_freeaddrinfo(struct rdma_addrinfo *r)
{
	while (r) {
		struct rdma_addrinfo *next = r->ai_next;

		free(r->ai_src_addr);
		free(r->ai_dst_addr);
		free(r->ai_connect);
		free(r->ai_route);
		free(r);
		r = next;
	}
}

SR_API int rdma_getaddrinfo(const char *node, const char *service,
			    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_family = family_hint(hints)};
	struct addrinfo *ai = NULL;
	struct rdma_addrinfo *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return sr_cm_fail(ENOMEM);
	if (!node && !service) {
		err = hints ? from_hints(r, hints) : EAI_NONAME;
	} else {
		if (hints && hints->ai_flags & RAI_PASSIVE)
			want.ai_flags |= AI_PASSIVE;
		if (hints && hints->ai_flags & RAI_NUMERICHOST)
			want.ai_flags |= AI_NUMERICHOST;
		err = getaddrinfo(node, service, &want, &ai);
		if (!err)
			err = to_rai(r, ai, hints);
		if (ai)
			freeaddrinfo(ai);
	}
	if (err) {
		rdma_freeaddrinfo(r);
		return err;
	}
	*res = r;
	return 0;
}

/* ---- end points -------------------------------------------------------------- */

static int passive_ep(struct rdma_cm_id *ib, struct rdma_addrinfo *res, struct ibv_pd *pd,
		      struct ibv_qp_init_attr *attr)
{
	struct sr_cm_id *id = sr_to_cm(ib);

	if (rdma_bind_addr(ib, res->ai_src_addr))
		return -1;
	if (pd)
		ib->pd = pd;
	if (!attr)
		return 0;
	id->ep_attr = malloc(sizeof(*attr));
	if (!id->ep_attr)
		return sr_cm_fail(ENOMEM);
	*id->ep_attr = *attr;
	attr->qp_type = id->ep_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return 0;
}

static int active_ep(struct rdma_cm_id *ib, struct rdma_addrinfo *res, struct ibv_pd *pd,
		     struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(ib, res->ai_src_addr, res->ai_dst_addr, RESOLVE_TIMEOUT_MS) ||
	    rdma_resolve_route(ib, RESOLVE_TIMEOUT_MS))
		return -1;
	if (!attr)
		return 0;
	attr->qp_type = (enum ibv_qp_type)res->ai_qp_type; /* rdma_client relies on it */
	return rdma_create_qp(ib, pd, attr);
}

SR_API int rdma_create_ep(struct rdma_cm_id **ret, struct rdma_addrinfo *res, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *ib;
	int r;

	if (rdma_create_id(NULL, &ib, NULL, (enum rdma_port_space)res->ai_port_space))
		return -1;
	r = res->ai_flags & RAI_PASSIVE ? passive_ep(ib, res, pd, attr)
					: active_ep(ib, res, pd, attr);
	if (r) {
		int err = errno;

		rdma_destroy_ep(ib);
		return sr_cm_fail(err);
	}
	*ret = ib;
	return 0;
}

SR_API void rdma_destroy_ep(struct rdma_cm_id *ib)
{
	if (ib->qp)
		rdma_destroy_qp(ib);
	if (ib->srq)
		rdma_destroy_srq(ib);
	rdma_destroy_id(ib);
}

SR_API int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **ret)
{
	struct sr_cm_id *l = sr_to_cm(listen);
	struct rdma_cm_event *e;
	int r = 0;

	if (!l->is_sync)
		return sr_cm_fail(EINVAL);
	if (listen->event)
		rdma_ack_cm_event(listen->event);
	listen->event = NULL;
	if (rdma_get_cm_event(listen->channel, &e))
		return -1;
	if (e->status || e->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		r = sr_cm_fail(EINVAL);
	} else if (l->ep_attr) {
		struct ibv_qp_init_attr attr = *l->ep_attr;

		r = rdma_create_qp(e->id, listen->pd, &attr);
	}
	if (r) {
		listen->event = e;
		return r;
	}
	*ret = e->id;
	e->id->event = e;
	return 0;
}
