/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of UDP port 4791, and reading them; see port.h.
 *
 * A socket is bound to one address and never connected: then the kernel sends IPv4 packets with ID
 * 0 and "don't fragment", which the ICRC has to know. It is unprivileged, so IPv4 headers of what
 * arrives are not seen; icrc.h solves for what is missing.
 *
 * Reading: a thread that polls reads under rx_lock, and the helper leaves the socket alone as long
 * as one does. Otherwise each packet would wake the helper for nothing.
 */
#include "softrdma/fabric/roce/port.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/process/part.h"
#include "softrdma/trace/trace.h"
#include "softrdma/verbs/context.h"

#ifndef UDP_GRO
#	define UDP_GRO 104
#endif
#ifndef UDP_NO_CHECK6_RX
#	define UDP_NO_CHECK6_RX 102
#endif

enum {
	MAX_PORTS = 64,
	BUFFER = 64 << 10,
	SOCKET_BUFFER = 4 << 20,
	DATAGRAMS = 64, /* of one reading */
	ECT_0 = 2,
	ECN_CE = 3,
};

#define POLLED_NOW_NS  50000u	/* a poll so recent: that thread reads */
#define POLLED_LATE_NS 1000000u /* none for so long: the helper reads */

/* Guards opening. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct roce_port *_Atomic ports[MAX_PORTS];
static _Atomic unsigned n_ports;
static struct roce_port_callbacks call;

/* ---- which addresses ------------------------------------------------------------------------ */

bool roce_allows(const union ibv_gid *local)
{
	const char *which = getenv("SOFTRDMA_ROCE");
	struct in6_addr wanted = {0};

	if (!which || !*which)
		return false;
	if (!strcmp(which, "any") || !local)
		return true;
	if (inet_pton(AF_INET6, which, &wanted) != 1) {
		wanted.s6_addr[10] = wanted.s6_addr[11] = 0xff;
		if (inet_pton(AF_INET, which, &wanted.s6_addr[12]) != 1)
			return false;
	}
	return !memcmp(&wanted, local, sizeof(wanted));
}

void roce_sockaddr(const union ibv_gid *gid, uint32_t scope, struct sockaddr_in6 *ret,
		   socklen_t *ret_len)
{
	struct sockaddr_in *in = (void *)ret;

	memset(ret, 0, sizeof(*ret));
	if (roce_gid_is_ip4(gid)) {
		in->sin_family = AF_INET;
		in->sin_port = htons(ROCE_PORT);
		memcpy(&in->sin_addr, gid->raw + 12, 4);
		*ret_len = sizeof(*in);
		return;
	}
	ret->sin6_family = AF_INET6;
	ret->sin6_port = htons(ROCE_PORT);
	memcpy(&ret->sin6_addr, gid->raw, 16);
	ret->sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&ret->sin6_addr) ? scope : 0;
	*ret_len = sizeof(*ret);
}

static uint32_t scope_of(const union ibv_gid *gid)
{
	union ibv_gid at;
	uint32_t ifindex;

	for (int i = 0, n = sr_gid_count(); i < n; i++)
		if (!sr_gid_at(i, &at, &ifindex) && !memcmp(&at, gid, sizeof(at)))
			return ifindex;
	return 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

static void set(int sock, int level, int option, int value)
{
	setsockopt(sock, level, option, &value, sizeof(value));
}

static void set_options(int sock, bool v4)
{
	set(sock, SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER);
	set(sock, SOL_SOCKET, SO_SNDBUF, SOCKET_BUFFER);
	set(sock, SOL_UDP, UDP_GRO, 1);
	if (v4) {
		set(sock, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
		set(sock, IPPROTO_IP, IP_TOS, ECT_0);
		set(sock, IPPROTO_IP, IP_RECVTOS, 1);
		set(sock, IPPROTO_IP, IP_RECVERR, 1);
		return;
	}
	set(sock, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	set(sock, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	set(sock, IPPROTO_IPV6, IPV6_TCLASS, ECT_0);
	set(sock, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	set(sock, IPPROTO_IPV6, IPV6_RECVERR, 1);
	set(sock, SOL_UDP, UDP_NO_CHECK6_RX, 1); /* rdma_rxe and adapters send none */
}

/* Once: a program that retries would repeat it without end. */
static void complain(const union ibv_gid *gid, int err)
{
	static _Atomic bool said;
	char text[INET6_ADDRSTRLEN];
	bool v4 = roce_gid_is_ip4(gid);

	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid->raw + 12 : gid->raw, text, sizeof(text));
	if (!atomic_exchange(&said, true))
		fprintf(stderr, "softrdma: cannot open UDP port 4791 of %s: %s%s\n", text,
			strerror(err),
			err == EADDRINUSE ? "; another program or the kernel's rdma_rxe has it"
					  : "");
}

static int open_socket(struct roce_port *p)
{
	bool v4 = roce_gid_is_ip4(&p->gid);
	struct sockaddr_in6 sa;
	socklen_t len;
	int r;

	p->sock = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->sock < 0)
		return -errno;
	set_options(p->sock, v4);
	roce_sockaddr(&p->gid, p->scope, &sa, &len);
	if (!bind(p->sock, (struct sockaddr *)&sa, len))
		return 0;
	r = -errno;
	complain(&p->gid, errno);
	close(p->sock);
	return r;
}

static void free_port(struct roce_port *p)
{
	free(p->buffer);
	free(p);
}

static int open_port(const union ibv_gid *gid, struct roce_port **ret)
{
	unsigned index = atomic_load(&n_ports);
	struct roce_port *p = index < MAX_PORTS ? calloc(1, sizeof(*p)) : NULL;
	int r;

	if (!p)
		return -ENOMEM;
	p->gid = *gid;
	p->scope = scope_of(gid);
	p->index = index;
	p->buffer = malloc(BUFFER);
	r = p->buffer ? open_socket(p) : -ENOMEM;
	if (r) {
		free_port(p);
		return r;
	}
	pthread_mutex_init(&p->rx_lock, NULL);
	atomic_store(&p->is_watched, true);
	atomic_store(&ports[index], p);
	atomic_store(&n_ports, index + 1);
	*ret = p;
	return sr_helper_watch(p->sock, SR_WATCH_ROCE, index);
}

struct roce_port *roce_port_find(const union ibv_gid *gid)
{
	for (unsigned i = 0; i < atomic_load(&n_ports); i++) {
		struct roce_port *p = atomic_load(&ports[i]);

		if (!memcmp(&p->gid, gid, sizeof(*gid)))
			return p;
	}
	return NULL;
}

int roce_port_open(const union ibv_gid *gid, struct roce_port **ret)
{
	int r = 0;

	*ret = roce_port_find(gid);
	if (*ret)
		return 0;
	if (!roce_allows(gid))
		return -EPERM;
	pthread_mutex_lock(&open_lock);
	*ret = roce_port_find(gid);
	if (!*ret)
		r = open_port(gid, ret);
	pthread_mutex_unlock(&open_lock);
	return r;
}

void roce_ports_init(const struct roce_port_callbacks *callbacks)
{
	call = *callbacks;
	roce_icrc_init();
}

void roce_ports_due(uint64_t ns)
{
	call.on_due(ns);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* What the kernel tells beside a datagram: the size of GRO's segments, and the ECN mark. */
static void read_control(struct msghdr *m, size_t *ret_segment, bool *ret_congested)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		int value = 0;

		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			memcpy(&value, CMSG_DATA(c), sizeof(value));
			*ret_segment = (size_t)value;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			*ret_congested = (*(const uint8_t *)CMSG_DATA(c) & ECN_CE) == ECN_CE;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
			memcpy(&value, CMSG_DATA(c), sizeof(value));
			*ret_congested = (value & ECN_CE) == ECN_CE;
		}
	}
}

/* One packet: its checksum is right with an ID that *ret_id then is. */
static bool is_intact(const struct roce_ends *e, const uint8_t *bytes, size_t n, uint16_t *ret_id)
{
	uint32_t stored;

	memcpy(&stored, bytes + n - ROCE_ICRC_BYTES, sizeof(stored));
	n -= ROCE_ICRC_BYTES;
	stored = le32toh(stored);
	return roce_icrc_solve(e, bytes, n, stored, true, ret_id) ||
	       (roce_gid_is_ip4(&e->from) && roce_icrc_solve(e, bytes, n, stored, false, ret_id));
}

static void take_packet(struct roce_port *port, const struct roce_ends *e, const uint8_t *bytes,
			size_t n, bool congested)
{
	struct roce_packet p;
	uint16_t id = 0;

	atomic_fetch_add_explicit(&port->n_received, 1, memory_order_relaxed);
	if (!roce_packet_decode(bytes, n, &p) || !is_intact(e, bytes, n, &id)) {
		atomic_fetch_add_explicit(&port->n_bad, 1, memory_order_relaxed);
		return;
	}
	if (trace_on())
		trace_wire(&e->from, &e->to, e->source_port, id, bytes, n);
	call.on_packet(port, &e->from, &p, id, congested);
}

static void take_datagram(struct roce_port *port, struct msghdr *m, size_t n)
{
	struct sockaddr_in6 *from = m->msg_name;
	struct roce_ends e = {.to = port->gid, .source_port = ntohs(from->sin6_port)};
	size_t segment = n;
	bool congested = false;

	sr_gid_from_sockaddr((struct sockaddr *)from, &e.from);
	read_control(m, &segment, &congested);
	for (size_t at = 0; segment && at < n; at += segment)
		take_packet(port, &e, port->buffer + at, segment < n - at ? segment : n - at,
			    congested);
}

/* Returns the bytes of the datagram, or -1. */
static ssize_t read_one(struct roce_port *p, struct msghdr *m, int flags)
{
	return recvmsg(p->sock, m, flags | MSG_DONTWAIT);
}

struct room {
	struct sockaddr_in6 from;
	struct iovec iov;
	union {
		struct cmsghdr align;
		uint8_t bytes[512];
	} control;
};

static struct msghdr message(struct roce_port *p, struct room *r)
{
	r->iov = (struct iovec){p->buffer, BUFFER};
	return (struct msghdr){.msg_name = &r->from,
			       .msg_namelen = sizeof(r->from),
			       .msg_iov = &r->iov,
			       .msg_iovlen = 1,
			       .msg_control = r->control.bytes,
			       .msg_controllen = sizeof(r->control.bytes)};
}

/* "Port unreachable" and "too big", as the kernel queues them for the socket. */
static void read_errors(struct roce_port *p)
{
	struct room room;

	for (int i = 0; i < DATAGRAMS; i++) {
		struct msghdr m = message(p, &room);
		union ibv_gid to;

		if (read_one(p, &m, MSG_ERRQUEUE) < 0)
			return;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
			const struct sock_extended_err *e = (const void *)CMSG_DATA(c);
			bool ours = (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
				    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR);

			if (!ours || e->ee_errno != ECONNREFUSED)
				continue;
			sr_gid_from_sockaddr((struct sockaddr *)&room.from, &to);
			call.on_refused(p, &to);
		}
	}
}

/* False: another thread reads. */
static bool receive(struct roce_port *p)
{
	struct room room;
	unsigned n = 0;
	ssize_t got;

	if (pthread_mutex_trylock(&p->rx_lock))
		return false;
	for (; n < DATAGRAMS; n++) {
		struct msghdr m = message(p, &room);

		got = read_one(p, &m, 0);
		if (got < 0 && errno != EAGAIN)
			continue; /* an error of an earlier send */
		if (got < 0)
			break;
		take_datagram(p, &m, (size_t)got);
	}
	if (n)
		call.on_batch();
	pthread_mutex_unlock(&p->rx_lock);
	return true;
}

void roce_ports_poll(void)
{
	unsigned n = atomic_load_explicit(&n_ports, memory_order_acquire);
	uint64_t now = n ? sr_now_ns() : 0;

	for (unsigned i = 0; i < n; i++) {
		struct roce_port *p = atomic_load_explicit(&ports[i], memory_order_relaxed);

		atomic_store_explicit(&p->polled_ns, now, memory_order_relaxed);
		receive(p);
	}
}

/* ---- which thread reads ---------------------------------------------------------------------- */

static void watch(struct roce_port *p)
{
	if (!atomic_exchange(&p->is_watched, true))
		sr_helper_watch(p->sock, SR_WATCH_ROCE, p->index);
}

void roce_ports_watch(void)
{
	for (unsigned i = 0; i < atomic_load(&n_ports); i++) {
		struct roce_port *p = atomic_load(&ports[i]);

		atomic_store(&p->polled_ns, 0);
		watch(p);
	}
}

static void look_again(uint64_t index)
{
	struct roce_port *p = atomic_load(&ports[index]);

	if (sr_now_ns() - atomic_load(&p->polled_ns) < POLLED_LATE_NS)
		sr_timer_start(&p->timer, POLLED_LATE_NS, look_again, index);
	else
		watch(p);
}

static void on_readable(uint64_t index)
{
	struct roce_port *p = atomic_load(&ports[index]);

	if (!p)
		return;
	read_errors(p);
	if (sr_now_ns() - atomic_load(&p->polled_ns) >= POLLED_NOW_NS) {
		receive(p);
		return;
	}
	sr_helper_unwatch(p->sock);
	atomic_store(&p->is_watched, false);
	sr_timer_start(&p->timer, POLLED_LATE_NS, look_again, index);
}

void roce_ports_forget(void)
{
	for (unsigned i = 0; i < atomic_load(&n_ports); i++)
		close(atomic_load(&ports[i])->sock);
	atomic_store(&n_ports, 0);
	pthread_mutex_init(&open_lock, NULL);
}

static const struct sr_part part = {.on_watch[SR_WATCH_ROCE] = on_readable};
SR_PART(part);
