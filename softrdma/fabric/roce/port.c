/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of UDP port 4791, and reading them; see port.h.
 *
 * A socket is bound to one address and never connected: then the kernel sends IPv4 packets with ID
 * 0 and "don't fragment", which the ICRC has to know. It is unprivileged, so IPv4 headers of what
 * arrives are not seen; icrc.h solves for what is missing.
 *
 * Each process reads one socket of the address' group, and all read the one for requests. The
 * kernel puts errors into a socket of its choice, so all look for errors everywhere (errors.c).
 *
 * Reading: a thread that polls reads under rx_lock, and the helper leaves the socket alone as long
 * as one does. Otherwise each packet would wake the helper for nothing.
 */
#include "softrdma/fabric/roce/port.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/roce/errors.h"
#include "softrdma/process/part.h"
#include "softrdma/trace/trace.h"
#include "softrdma/trace/trace_wire.h"
#include "softrdma/verbs/gid.h"

#ifndef UDP_GRO
#	define UDP_GRO 104
#endif

enum {
	MAX_PORTS = 64,
	BUFFER = 64 << 10,
	DATAGRAMS = 64, /* of one reading */
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

static void free_port(struct roce_port *p)
{
	free(p->buffer);
	free(p);
}

/* The socket may hold packets for a process that had this number before. */
static void drain(int sock)
{
	char byte;

	while (recv(sock, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) >= 0 || errno != EAGAIN)
		; /* another error is that of an earlier send */
}

/* In epoll data. */
static uint64_t watch_id(const struct roce_port *p, unsigned sock)
{
	return (uint64_t)sock << 8 | p->index;
}

static int watch_group(struct roce_port *p)
{
	int r = sr_helper_watch(p->group.listener, SR_WATCH_ROCE_GROUP, p->index);

	for (unsigned i = 0; i < ROCE_SOCKETS && !r; i++)
		r = i == p->member || i == ROCE_FOR_ANY
			    ? sr_helper_watch(p->group.socks[i], SR_WATCH_ROCE, watch_id(p, i))
			    : sr_helper_watch_errors(p->group.socks[i], SR_WATCH_ROCE,
						     watch_id(p, i));
	return r;
}

static int join_group(struct roce_port *p)
{
	int r = roce_group_open(&p->gid, p->scope, &p->group);

	if (r)
		return r;
	p->member = (unsigned)roce_member_number();
	p->sock = p->group.socks[p->member];
	drain(p->sock);
	atomic_store(&p->group.directory->members[p->member], roce_member_inbox());
	return 0;
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
	r = p->buffer ? join_group(p) : -ENOMEM;
	if (r) {
		free_port(p);
		return r;
	}
	pthread_mutex_init(&p->rx_lock, NULL);
	atomic_store(&p->is_watched, true);
	atomic_store(&ports[index], p);
	atomic_store(&n_ports, index + 1);
	*ret = p;
	return watch_group(p);
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

/* Reads the ancillary data of a datagram: the size of GRO's segments, and the ECN mark. */
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

/* It came here because the kernel or an adapter merged it with one that is for this process. */
static void pass(const struct roce_port *port, const struct roce_ends *e, unsigned to,
		 const uint8_t *bytes, size_t n, const struct roce_arrival *how)
{
	uint16_t inbox = atomic_load(&port->group.directory->members[to]);
	struct roce_passed passed = {.kind = ROCE_PASSED_PACKET,
				     .how = *how,
				     .n = (uint32_t)n,
				     .local = e->to,
				     .remote = e->from};

	memcpy(passed.bytes, bytes, n);
	if (inbox)
		roce_member_pass(inbox, &passed);
}

static void take_packet(struct roce_port *port, const struct roce_ends *e, const uint8_t *bytes,
			size_t n, bool congested)
{
	unsigned to = roce_steer(bytes, n);
	struct roce_arrival how = {.source_port = e->source_port, .congested = congested};
	struct roce_packet p;

	atomic_fetch_add_explicit(&port->n_received, 1, memory_order_relaxed);
	if (!roce_packet_decode(bytes, n, &p) || n > ROCE_PACKET_MAX ||
	    !is_intact(e, bytes, n, &how.ip_id)) {
		atomic_fetch_add_explicit(&port->n_bad, 1, memory_order_relaxed);
		return;
	}
	if (to != port->member && to != ROCE_FOR_ANY) {
		pass(port, e, to, bytes, n, &how);
		return;
	}
	if (trace_on())
		trace_wire(&e->from, &e->to, e->source_port, how.ip_id, bytes, n);
	call.on_packet(port, &e->from, &p, &how);
}

/* The datagrams that are read, and the bytes into which. */
struct reading {
	struct roce_port *port;
	int sock;
	uint8_t *bytes;
	size_t size;
	struct sockaddr_in6 from;
	struct iovec iov;
	union {
		struct cmsghdr align;
		uint8_t bytes[512];
	} control;
};

static void take_datagram(struct reading *r, struct msghdr *m, size_t n)
{
	struct roce_ends e = {.to = r->port->gid, .source_port = ntohs(r->from.sin6_port)};
	size_t segment = n;
	bool congested = false;

	sr_gid_from_sockaddr((struct sockaddr *)&r->from, &e.from);
	read_control(m, &segment, &congested);
	for (size_t at = 0; segment && at < n; at += segment)
		take_packet(r->port, &e, r->bytes + at, segment < n - at ? segment : n - at,
			    congested);
}

/* Returns the bytes of the datagram, or -1. */
static ssize_t read_one(struct reading *r, struct msghdr *ret, int flags)
{
	r->iov = (struct iovec){r->bytes, r->size};
	*ret = (struct msghdr){.msg_name = &r->from,
			       .msg_namelen = sizeof(r->from),
			       .msg_iov = &r->iov,
			       .msg_iovlen = 1,
			       .msg_control = r->control.bytes,
			       .msg_controllen = sizeof(r->control.bytes)};
	return recvmsg(r->sock, ret, flags | MSG_DONTWAIT);
}

static void read_all(struct reading *r)
{
	struct msghdr m;
	unsigned n = 0;
	ssize_t got;

	for (; n < DATAGRAMS; n++) {
		got = read_one(r, &m, 0);
		if (got >= 0)
			take_datagram(r, &m, (size_t)got);
		else if (errno == EAGAIN)
			break;
		else
			roce_read_errors(r->port, r->sock);
	}
	if (n)
		call.on_batch();
}

/* False: another thread reads. */
static bool receive(struct roce_port *p)
{
	struct reading r = {.port = p, .sock = p->sock, .bytes = p->buffer, .size = BUFFER};

	if (pthread_mutex_trylock(&p->rx_lock))
		return false;
	read_all(&r);
	pthread_mutex_unlock(&p->rx_lock);
	return true;
}

/* Helper: the socket that all processes read. */
static void receive_requests(struct roce_port *p)
{
	static uint8_t bytes[BUFFER];
	struct reading r = {.port = p,
			    .sock = p->group.socks[ROCE_FOR_ANY],
			    .bytes = bytes,
			    .size = sizeof(bytes)};

	read_all(&r);
}

void roce_port_take_passed(const struct roce_passed *passed)
{
	struct roce_port *port = roce_port_find(&passed->local);
	struct roce_packet p;

	if (port && roce_packet_decode(passed->bytes, passed->n, &p)) {
		call.on_packet(port, &passed->remote, &p, &passed->how);
		call.on_batch();
	}
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
		sr_helper_watch(p->sock, SR_WATCH_ROCE, watch_id(p, p->member));
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

static void on_readable(uint64_t id)
{
	struct roce_port *p = atomic_load(&ports[id & 0xff]);
	unsigned sock = (unsigned)(id >> 8);

	if (!p)
		return;
	roce_read_errors(p, p->group.socks[sock]);
	if (sock == ROCE_FOR_ANY)
		receive_requests(p);
	if (sock != p->member)
		return;
	if (sr_now_ns() - atomic_load(&p->polled_ns) >= POLLED_NOW_NS) {
		receive(p);
		return;
	}
	sr_helper_unwatch(p->sock);
	atomic_store(&p->is_watched, false);
	sr_timer_start(&p->timer, POLLED_LATE_NS, look_again, p->index);
}

static void on_joining(uint64_t index)
{
	struct roce_port *p = atomic_load(&ports[index]);

	if (p)
		roce_group_admit(&p->group);
}

void roce_ports_forget(void)
{
	for (unsigned i = 0; i < atomic_load(&n_ports); i++)
		roce_group_close(&atomic_load(&ports[i])->group);
	atomic_store(&n_ports, 0);
	pthread_mutex_init(&open_lock, NULL);
}

static const struct sr_part part = {
	.on_watch = {[SR_WATCH_ROCE] = on_readable, [SR_WATCH_ROCE_GROUP] = on_joining}};
SR_PART(part);
