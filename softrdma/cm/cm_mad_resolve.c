/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/cm/cm_mad_resolve.h"
#include "softrdma/cm/cm_addr.h"
#include "softrdma/cm/cm_mad_conn.h"
#include "softrdma/verbs/gid.h"

#include <errno.h>
#include <string.h>

#include "softrdma/cm/sr_cm.h"

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

void sr_cm_gid_to_sockaddr(const uint8_t gid[16], uint16_t port, struct sockaddr_in6 *ret)
{
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)ret;

	memset(ret, 0, sizeof(*ret));
	if (!memcmp(gid, mapped, sizeof(mapped))) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, gid + 12, 4);
		return;
	}
	ret->sin6_family = AF_INET6;
	ret->sin6_port = htons(port);
	memcpy(&ret->sin6_addr, gid, 16);
}

int sr_cm_find_far(const struct sockaddr *src, const struct sockaddr *dst,
		   struct sockaddr_storage *ret_local)
{
	union ibv_gid local, remote;
	uint16_t port = src && src->sa_family ? sr_cm_port(src) : 0;
	int r = 0;

	sr_gid_from_sockaddr(dst, &remote);
	if (src && src->sa_family && !sr_cm_is_any(src))
		sr_gid_from_sockaddr(src, &local);
	else
		r = sr_gsi_route(&remote, &local);
	if (r || !sr_gsi_allows(&local))
		return -EHOSTUNREACH;
	memset(ret_local, 0, sizeof(*ret_local));
	sr_cm_gid_to_sockaddr(local.raw, port, (struct sockaddr_in6 *)(void *)ret_local);
	if (ret_local->ss_family != dst->sa_family)
		return -EHOSTUNREACH;
	return sr_gsi_open(&local);
}

void sr_cm_ends(const struct sr_cm_id *id, struct ib_cm_ends *ret)
{
	memcpy(ret->local, id->ib.route.addr.addr.ibaddr.sgid.raw, 16);
	memcpy(ret->remote, id->ib.route.addr.addr.ibaddr.dgid.raw, 16);
}

enum ibv_mtu sr_cm_path_mtu(const struct ib_cm_ends *ends)
{
	struct sr_gsi_path path;
	enum ibv_mtu mtu;

	memcpy(path.local.raw, ends->local, 16);
	memcpy(path.remote.raw, ends->remote, 16);
	mtu = sr_gsi_path_mtu(&path);
	return mtu < IBV_MTU_256 ? IBV_MTU_256 : mtu;
}
