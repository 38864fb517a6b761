/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses. RDMA ports are a name space of their own (TCP's port 4420 may be in
 * use too), kept as abstract socket names:
 *
 *     softrdma.cm.<port space>.<port>.<address>      address: 4:1.2.3.4 or 6:fe80::1,
 *                                  4:* and 6:* wildcards, 46:* both families
 *
 * The socket of an id is bound to its name from rdma_bind_addr or rdma_resolve_addr
 * on, so a port is reserved as long as the id lives and names vanish with the
 * process. Equal names exclude each other by bind(2); a wildcard and an address
 * that it covers are found by reading /proc/net/unix.
 *
 * An address is ours if a TCP socket can be bound to it.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	EPHEMERAL_FIRST = 32768,
	EPHEMERAL_LAST = 60999
};

socklen_t cm_sockaddr_len(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static bool is_any(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr == 0;
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr);
}

static uint16_t get_port(const struct sockaddr *sa)
{
	/* the port is at the same place in both families */
	return ntohs(((const struct sockaddr_in *)(const void *)sa)->sin_port);
}

static void set_port(struct sockaddr *sa, uint16_t port)
{
	((struct sockaddr_in *)(void *)sa)->sin_port = htons(port);
}

/* 0 if it is; -EADDRNOTAVAIL and the like, or that no socket is left to find out with. */
static int check_local(const struct sockaddr *sa)
{
	struct sockaddr_storage copy = {0};
	int fd, r;

	memcpy(&copy, sa, cm_sockaddr_len(sa));
	set_port((struct sockaddr *)&copy, 0);
	fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = bind(fd, (struct sockaddr *)&copy, cm_sockaddr_len(sa)) ? -EADDRNOTAVAIL : 0;
	close(fd);
	return r;
}

static bool is_shortage(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOBUFS || r == -ENOMEM;
}

/* ---- names ----------------------------------------------------------------- */

static void address_text(const struct sockaddr *sa, bool both, char *buf, size_t size)
{
	char text[INET6_ADDRSTRLEN] = "*";

	if (is_any(sa)) {
		snprintf(buf, size, "%s:*", both ? "46" : sa->sa_family == AF_INET ? "4" : "6");
		return;
	}
	if (sa->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, text,
			  sizeof(text));
	else
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr,
			  text, sizeof(text));
	snprintf(buf, size, "%s:%s", sa->sa_family == AF_INET ? "4" : "6", text);
}

static socklen_t make_name(struct sockaddr_un *un, enum rdma_port_space ps, uint16_t port,
			   const char *address)
{
	int n;

	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "softrdma.cm.%x.%u.%s",
		     (unsigned)ps, port, address);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Do two addresses of the same port overlap without being equal? */
static bool overlap(const char *a, const char *b)
{
	bool wild = a[strlen(a) - 1] == '*' || b[strlen(b) - 1] == '*';
	bool both = !strncmp(a, "46", 2) || !strncmp(b, "46", 2);

	return wild && (both || a[0] == b[0]) && strcmp(a, b) != 0;
}

/* An unconnected socket whose name overlaps ours; connected ones only inherited it. */
static bool covered_by_other(enum rdma_port_space ps, uint16_t port, const char *address)
{
	char line[512], prefix[64];
	bool found = false;
	FILE *f = fopen("/proc/net/unix", "re");

	if (!f)
		return false;
	snprintf(prefix, sizeof(prefix), "@softrdma.cm.%x.%u.", (unsigned)ps, port);
	while (!found && fgets(line, sizeof(line), f)) {
		char *name = strstr(line, prefix);
		unsigned state = 0;

		line[strcspn(line, "\n")] = '\0';
		if (name && sscanf(line, "%*s %*s %*s %*s %*s %x", &state) == 1 && state == 1)
			found = overlap(name + strlen(prefix), address);
	}
	fclose(f);
	return found;
}

static int open_socket(struct cm_id *id)
{
	if (id->sock < 0)
		id->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return id->sock < 0 ? -errno : 0;
}

static int bind_port(struct cm_id *id, uint16_t port, const char *address)
{
	struct sockaddr_un un;
	socklen_t len = make_name(&un, id->ib.ps, port, address);

	if (!id->reuse && covered_by_other(id->ib.ps, port, address))
		return -EADDRINUSE;
	return bind(id->sock, (struct sockaddr *)&un, len) ? -errno : 0;
}

static int bind_any_port(struct cm_id *id, const char *address, uint16_t *ret_port)
{
	static _Atomic uint32_t next;
	uint32_t n = EPHEMERAL_LAST - EPHEMERAL_FIRST + 1;
	uint32_t start = (uint32_t)getpid() * 2654435761u + atomic_fetch_add(&next, 1);
	bool wild = address[strlen(address) - 1] == '*';

	for (uint32_t i = 0; i < n; i++) {
		uint16_t port = (uint16_t)(EPHEMERAL_FIRST + (start + i) % n);
		struct sockaddr_un un;
		socklen_t len = make_name(&un, id->ib.ps, port, address);

		if (wild && covered_by_other(id->ib.ps, port, address))
			continue;
		if (!bind(id->sock, (struct sockaddr *)&un, len)) {
			*ret_port = port;
			return 0;
		}
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -EADDRNOTAVAIL;
}

int cm_bind(struct cm_id *id, const struct sockaddr *sa)
{
	struct sockaddr *src = &id->ib.route.addr.src_addr;
	char address[INET6_ADDRSTRLEN + 8];
	uint16_t port = get_port(sa);
	int r;

	if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	if (id->state != CM_IDLE)
		return -EINVAL;
	r = is_any(sa) ? 0 : check_local(sa);
	if (r)
		return is_shortage(r) ? r : -EADDRNOTAVAIL;
	r = open_socket(id);
	if (r)
		return r;
	address_text(sa, sa->sa_family == AF_INET6 && !id->afonly, address, sizeof(address));
	r = port ? bind_port(id, port, address) : bind_any_port(id, address, &port);
	if (r)
		return r;
	memcpy(src, sa, cm_sockaddr_len(sa));
	set_port(src, port);
	id->state = CM_BOUND;
	return is_any(sa) ? 0 : cm_set_device(id);
}

int cm_find_listener(struct cm_id *id)
{
	const struct sockaddr *dst = &id->ib.route.addr.dst_addr;
	char exact[INET6_ADDRSTRLEN + 8];
	const char *tries[] = {exact, dst->sa_family == AF_INET ? "4:*" : "6:*", "46:*"};
	int r = -ECONNREFUSED;

	address_text(dst, false, exact, sizeof(exact));
	for (unsigned i = 0; i < 3 && r == -ECONNREFUSED; i++) {
		struct sockaddr_un un;
		socklen_t len = make_name(&un, id->ib.ps, get_port(dst), tries[i]);

		r = connect(id->sock, (struct sockaddr *)&un, len) ? -errno : 0;
	}
	return r;
}

/* ---- the calls ------------------------------------------------------------- */

SR_API int rdma_bind_addr(struct rdma_cm_id *ib, struct sockaddr *addr)
{
	int r;

	pthread_mutex_lock(&cm_lock);
	r = cm_bind(to_cm(ib), addr);
	pthread_mutex_unlock(&cm_lock);
	return r ? cm_fail(-r) : 0;
}

static void loopback_for_any(struct sockaddr *dst)
{
	if (!is_any(dst))
		return;
	if (dst->sa_family == AF_INET)
		((struct sockaddr_in *)(void *)dst)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)(void *)dst)->sin6_addr = in6addr_loopback;
}

/* From where does a connection to dst come: if not told, from dst, which is local. */
static int bind_source(struct cm_id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	struct sockaddr_storage s = {0};

	if (id->state != CM_IDLE)
		return cm_set_device(id);
	if (src && src->sa_family && !is_any(src)) {
		memcpy(&s, src, cm_sockaddr_len(src));
	} else {
		memcpy(&s, dst, cm_sockaddr_len(dst));
		set_port((struct sockaddr *)&s, src && src->sa_family ? get_port(src) : 0);
	}
	return cm_bind(id, (struct sockaddr *)&s);
}

static int resolve(struct cm_id *id, const struct sockaddr *src, const struct sockaddr *dst_in)
{
	struct sockaddr *dst = &id->ib.route.addr.dst_addr;
	int r;

	if (id->state != CM_IDLE && id->state != CM_BOUND)
		return -EINVAL;
	if (dst_in->sa_family != AF_INET && dst_in->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	memcpy(dst, dst_in, cm_sockaddr_len(dst_in));
	loopback_for_any(dst);
	r = check_local(dst);
	if (is_shortage(r))
		return r;
	if (r) { /* this engine ends at the edge of the host */
		cm_raise(id, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
		return 0;
	}
	r = bind_source(id, src, dst);
	if (r)
		return r;
	gid_from_sockaddr(&id->ib.route.addr.src_addr, &id->ib.route.addr.addr.ibaddr.sgid);
	gid_from_sockaddr(dst, &id->ib.route.addr.addr.ibaddr.dgid);
	id->ib.route.addr.addr.ibaddr.pkey = DEV_PKEY;
	id->state = CM_ADDR_RESOLVED;
	cm_raise(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}

SR_API int rdma_resolve_addr(struct rdma_cm_id *ib, struct sockaddr *src, struct sockaddr *dst,
			     int timeout_ms)
{
	struct cm_id *id = to_cm(ib);
	int r;

	pthread_mutex_lock(&cm_lock);
	r = resolve(id, src, dst);
	pthread_mutex_unlock(&cm_lock);
	return cm_wait_sync(id, r ? cm_fail(-r) : 0);
}

static void fill_path(struct ibv_sa_path_rec *p, const struct cm_id *id)
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
	struct cm_id *id = to_cm(ib);
	int r = 0;

	pthread_mutex_lock(&cm_lock);
	if (id->state != CM_ADDR_RESOLVED) {
		r = EINVAL;
	} else {
		ib->route.path_rec = calloc(1, sizeof(*ib->route.path_rec));
		if (ib->route.path_rec) {
			fill_path(ib->route.path_rec, id);
			ib->route.num_paths = 1;
		}
		id->state = CM_ROUTE_RESOLVED;
		cm_raise(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	}
	pthread_mutex_unlock(&cm_lock);
	return cm_wait_sync(id, r ? cm_fail(r) : 0);
}
