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
#include "softrdma/cm/cm_addr.h"
#include "softrdma/cm/cm_device.h"
#include "softrdma/cm/sr_cm.h"

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

socklen_t sr_cm_sockaddr_len(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

bool sr_cm_is_any(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr == 0;
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr);
}

uint16_t sr_cm_port(const struct sockaddr *sa)
{
	/* the port is at the same place in both families */
	return ntohs(((const struct sockaddr_in *)(const void *)sa)->sin_port);
}

void sr_cm_set_port(struct sockaddr *sa, uint16_t port)
{
	((struct sockaddr_in *)(void *)sa)->sin_port = htons(port);
}

/* 0 if the address is local; -EADDRNOTAVAIL and the like if not; a shortage of sockets has
 * errors of its own (sr_cm_is_shortage). */
int sr_cm_check_local(const struct sockaddr *sa)
{
	struct sockaddr_storage copy = {0};
	int fd, r;

	memcpy(&copy, sa, sr_cm_sockaddr_len(sa));
	sr_cm_set_port((struct sockaddr *)&copy, 0);
	fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	r = bind(fd, (struct sockaddr *)&copy, sr_cm_sockaddr_len(sa)) ? -EADDRNOTAVAIL : 0;
	close(fd);
	return r;
}

bool sr_cm_is_shortage(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOBUFS || r == -ENOMEM;
}

/* ---- names ----------------------------------------------------------------- */

static void address_text(const struct sockaddr *sa, bool both, char *buf, size_t size)
{
	char text[INET6_ADDRSTRLEN] = "*";

	if (sr_cm_is_any(sa)) {
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

static int open_socket(struct sr_cm_id *id)
{
	if (id->sock < 0)
		id->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return id->sock < 0 ? -errno : 0;
}

static int bind_port(struct sr_cm_id *id, uint16_t port, const char *address)
{
	struct sockaddr_un un;
	socklen_t len = make_name(&un, id->ib.ps, port, address);

	if (!id->may_share_port && covered_by_other(id->ib.ps, port, address))
		return -EADDRINUSE;
	return bind(id->sock, (struct sockaddr *)&un, len) ? -errno : 0;
}

static int bind_any_port(struct sr_cm_id *id, const char *address, uint16_t *ret_port)
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

int sr_cm_bind(struct sr_cm_id *id, const struct sockaddr *sa)
{
	struct sockaddr *src = &id->ib.route.addr.src_addr;
	char address[INET6_ADDRSTRLEN + 8];
	uint16_t port = sr_cm_port(sa);
	int r;

	if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	if (id->state != CM_IDLE)
		return -EINVAL;
	r = sr_cm_is_any(sa) ? 0 : sr_cm_check_local(sa);
	if (r)
		return sr_cm_is_shortage(r) ? r : -EADDRNOTAVAIL;
	r = open_socket(id);
	if (r)
		return r;
	address_text(sa, sa->sa_family == AF_INET6 && !id->is_v6only, address, sizeof(address));
	r = port ? bind_port(id, port, address) : bind_any_port(id, address, &port);
	if (r)
		return r;
	memcpy(src, sa, sr_cm_sockaddr_len(sa));
	sr_cm_set_port(src, port);
	id->state = CM_BOUND;
	return sr_cm_is_any(sa) ? 0 : sr_cm_set_device(id);
}

int sr_cm_find_listener(struct sr_cm_id *id)
{
	const struct sockaddr *dst = &id->ib.route.addr.dst_addr;
	char exact[INET6_ADDRSTRLEN + 8];
	const char *tries[] = {exact, dst->sa_family == AF_INET ? "4:*" : "6:*", "46:*"};
	int r = -ECONNREFUSED;

	address_text(dst, false, exact, sizeof(exact));
	for (unsigned i = 0; i < 3 && r == -ECONNREFUSED; i++) {
		struct sockaddr_un un;
		socklen_t len = make_name(&un, id->ib.ps, sr_cm_port(dst), tries[i]);

		r = connect(id->sock, (struct sockaddr *)&un, len) ? -errno : 0;
	}
	return r;
}
