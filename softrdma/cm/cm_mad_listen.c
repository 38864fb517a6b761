/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A listener on one address has that address. One on the wildcard has every address of the host
 * except the loopback's and link-local ones, those that come later included: a thread opens them,
 * because opening may wait for another process, and the helper must not. Opening an address again
 * is cheap.
 */
#include "softrdma/cm/cm_addr.h"
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_mad_listen.h"
#include "softrdma/cm/cm_mad_conn.h"
#include "softrdma/cm/cm_mad_resolve.h"
#include "softrdma/verbs/gid.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ifaddrs.h>
#include <net/if.h>

#include "softrdma/cm/sr_cm.h"

enum {
	MAX_ADDRESSES = 64,
};

struct listener {
	struct listener *next;
	uint64_t serial; /* of the id */
	struct sockaddr_in6 on;
	enum rdma_port_space ps;
	bool is_v6only;
};

/* Under sr_cm_lock. */
static struct listener *listeners;
static int netlink = -1;

/* ---- addresses -------------------------------------------------------------------------- */

static bool covers(const struct listener *l, const uint8_t gid[16])
{
	const struct sockaddr *on = (const struct sockaddr *)&l->on;
	struct sockaddr_in6 sa;
	union ibv_gid own;

	sr_cm_gid_to_sockaddr(gid, 0, &sa);
	if (sr_cm_is_any(on))
		return sa.sin6_family == on->sa_family ||
		       (on->sa_family == AF_INET6 && !l->is_v6only);
	sr_gid_from_sockaddr(on, &own);
	return !memcmp(own.raw, gid, 16);
}

static bool is_usable(const struct ifaddrs *i)
{
	const struct sockaddr_in6 *in6 = (const void *)i->ifa_addr;

	if (!i->ifa_addr || i->ifa_flags & IFF_LOOPBACK)
		return false;
	if (i->ifa_addr->sa_family == AF_INET6)
		return !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
	return i->ifa_addr->sa_family == AF_INET;
}

/* The addresses that RoCE may use and that l covers. */
static unsigned addresses_of(const struct listener *l, union ibv_gid ret[MAX_ADDRESSES])
{
	struct ifaddrs *all;
	unsigned n = 0;

	if (!sr_cm_is_any((const struct sockaddr *)&l->on)) {
		sr_gid_from_sockaddr((const struct sockaddr *)&l->on, &ret[0]);
		return sr_gsi_allows(&ret[0]);
	}
	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *i = all; i && n < MAX_ADDRESSES; i = i->ifa_next) {
		if (!is_usable(i))
			continue;
		sr_gid_from_sockaddr(i->ifa_addr, &ret[n]);
		n += covers(l, ret[n].raw) && sr_gsi_allows(&ret[n]);
	}
	freeifaddrs(all);
	return n;
}

/* ---- addresses that come and go --------------------------------------------------------- */

/* A thread of its own, which ends. */
static void *open_new(void *arg)
{
	struct listener any = {.on = {.sin6_family = AF_INET6}};
	union ibv_gid gids[MAX_ADDRESSES];
	unsigned n = addresses_of(&any, gids);

	for (unsigned i = 0; i < n; i++)
		sr_gsi_open(&gids[i]);
	pthread_mutex_lock(&sr_cm_lock);
	for (unsigned i = 0; i < n; i++)
		for (const struct listener *l = listeners; l; l = l->next)
			if (covers(l, gids[i].raw)) /* if it listens there already: cheap */
				sr_gsi_listen(&gids[i], l->ps,
					      sr_cm_port((const struct sockaddr *)&l->on));
	pthread_mutex_unlock(&sr_cm_lock);
	return NULL;
}

static void on_addresses(uint64_t id)
{
	sigset_t all, old;
	pthread_t thread;
	char buf[8192];

	while (recv(netlink, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!pthread_create(&thread, NULL, open_new, NULL))
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Once there is a wildcard listener. Without the socket later addresses are not noticed. */
static void watch_addresses(void)
{
	struct sockaddr_nl on = {.nl_family = AF_NETLINK,
				 .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};

	if (netlink >= 0)
		return;
	netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (netlink < 0)
		return;
	if (bind(netlink, (struct sockaddr *)&on, sizeof(on)) ||
	    sr_helper_watch(netlink, SR_WATCH_ADDRESSES, 0)) {
		close(netlink);
		netlink = -1;
	}
}

/* ---- listening -------------------------------------------------------------------------- */

static void fill(const struct sr_cm_id *id, struct listener *ret)
{
	const struct sockaddr *on = &id->ib.route.addr.src_addr;

	*ret = (struct listener){.serial = id->serial, .ps = id->ib.ps, .is_v6only = id->is_v6only};
	memcpy(&ret->on, on, sr_cm_sockaddr_len(on));
}

/* Other port spaces are for this host only. */
static bool has_mads(const struct sr_cm_id *id)
{
	return id->ib.ps == RDMA_PS_TCP || id->ib.ps == RDMA_PS_UDP;
}

int sr_cm_open_listen(struct sr_cm_id *id)
{
	union ibv_gid gids[MAX_ADDRESSES];
	struct listener l;
	unsigned n, n_open = 0;
	int r = 0, first = 0;

	if (!has_mads(id))
		return 0;
	pthread_mutex_lock(&sr_cm_lock);
	fill(id, &l);
	pthread_mutex_unlock(&sr_cm_lock);
	n = addresses_of(&l, gids);
	for (unsigned i = 0; i < n; i++) {
		r = sr_gsi_open(&gids[i]);
		n_open += !r;
		first = first ? first : r;
	}
	return n_open ? 0 : first;
}

static int listen_on(const struct listener *l, const union ibv_gid *gids, unsigned n)
{
	uint16_t port = sr_cm_port((const struct sockaddr *)&l->on);

	for (unsigned i = 0; i < n; i++) {
		int r = sr_gsi_listen(&gids[i], l->ps, port);

		if (!r || r == -ENODEV) /* not open: logged where that failed */
			continue;
		while (i--)
			sr_gsi_unlisten(&gids[i], l->ps, port);
		return r;
	}
	return 0;
}

int sr_cm_start_listen(struct sr_cm_id *id)
{
	union ibv_gid gids[MAX_ADDRESSES];
	struct listener *l;
	int r;

	if (!has_mads(id))
		return 0;
	l = malloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	fill(id, l);
	r = listen_on(l, gids, addresses_of(l, gids));
	if (r) {
		free(l);
		return r;
	}
	l->next = listeners;
	listeners = l;
	if (sr_cm_is_any((const struct sockaddr *)&l->on))
		watch_addresses();
	return 0;
}

void sr_cm_stop_listen(struct sr_cm_id *id)
{
	union ibv_gid gids[MAX_ADDRESSES];
	struct listener **p = &listeners, *l;
	unsigned n;

	while (*p && (*p)->serial != id->serial)
		p = &(*p)->next;
	l = *p;
	if (!l)
		return;
	*p = l->next;
	n = addresses_of(l, gids);
	for (unsigned i = 0; i < n; i++)
		sr_gsi_unlisten(&gids[i], l->ps, sr_cm_port((const struct sockaddr *)&l->on));
	free(l);
}

uint64_t sr_cm_find_mad_listener(const uint8_t gid[16], enum rdma_port_space ps, uint16_t port)
{
	const struct listener *wild = NULL;

	for (const struct listener *l = listeners; l; l = l->next) {
		const struct sockaddr *on = (const struct sockaddr *)&l->on;

		if (l->ps != ps || sr_cm_port(on) != port || !covers(l, gid))
			continue;
		if (!sr_cm_is_any(on))
			return l->serial;
		wild = l;
	}
	return wild ? wild->serial : 0;
}

static void forget(void)
{
	if (netlink >= 0)
		close(netlink);
	netlink = -1;
	while (listeners) {
		struct listener *l = listeners;

		listeners = l->next;
		free(l);
	}
}

static const struct sr_part part = {.forget = forget, .on_watch[SR_WATCH_ADDRESSES] = on_addresses};
SR_PART(part);
