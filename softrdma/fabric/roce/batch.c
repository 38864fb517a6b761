/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With chaos each packet leaves alone, or not at all, twice, damaged, late.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/roce/batch.h"
#include "softrdma/fabric/roce/errors.h"
#include "softrdma/fabric/roce/port.h"
#include "softrdma/fabric/roce/sockets.h"
#include "softrdma/process/part.h"
#include "softrdma/trace/trace.h"
#include "softrdma/trace/trace_wire.h"

#ifndef UDP_SEGMENT
#	define UDP_SEGMENT 103
#endif

enum {
	BATCHES = 4,
	BUFFER = 64 << 10,
	MESSAGES = 64,
	SEGMENTS = 64,	     /* of one burst: what Linux 6.1 takes */
	BURST_BYTES = 60000, /* an IP packet has less than 64 KiB */
	STEERING_BYTE = 6,   /* of the BTH: the middle of the destination QPN */
	HELD = 64,
	TRIES = 8,
};

/* A burst: packets of `size` bytes, the last one may be shorter. */
struct burst {
	struct roce_way way;
	struct sockaddr_in6 to;
	socklen_t to_len;
	uint8_t steering;
	bool is_closed; /* its last packet is shorter */
	uint32_t start, size, n, bytes;
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
	} control;
};

struct roce_batch {
	pthread_mutex_t lock;
	uint32_t used;
	unsigned n;
	struct burst bursts[MESSAGES];
	uint8_t bytes[BUFFER];
};

/* A packet that chaos keeps back; n 0: free. */
struct held {
	int sock; /* owned: the way's may be closed meanwhile */
	struct sockaddr_in6 to;
	socklen_t to_len;
	uint64_t due_ns;
	bool until_next;
	size_t n;
	uint8_t bytes[ROCE_PACKET_MAX];
};

static struct roce_batch batches[BATCHES];
static _Atomic unsigned next_batch;
static _Atomic bool cannot_burst;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static struct held held[HELD];
static _Atomic unsigned n_held;

/* ---- chaos ---------------------------------------------------------------------------------- */

static void send_plain(int sock, const void *bytes, size_t n, const struct sockaddr_in6 *to,
		       socklen_t to_len)
{
	sendto(sock, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)to, to_len);
}

static bool hold(const struct burst *b, const uint8_t *bytes, size_t n, uint64_t ns)
{
	uint64_t due = sr_now_ns() + (ns ? ns : 1000000);
	struct held *free = NULL;

	pthread_mutex_lock(&held_lock);
	for (unsigned i = 0; i < HELD && !free; i++)
		if (!held[i].n)
			free = &held[i];
	if (free) {
		*free = (struct held){.sock = fcntl(b->way.sock, F_DUPFD_CLOEXEC, 0),
				      .to = b->to,
				      .to_len = b->to_len,
				      .due_ns = due,
				      .until_next = !ns,
				      .n = n};
		memcpy(free->bytes, bytes, n);
		atomic_fetch_add(&n_held, 1);
	}
	pthread_mutex_unlock(&held_lock);
	if (free)
		roce_ports_due(due);
	return free;
}

/* Sends what is due, or what only waited for another packet to pass. */
static uint64_t release(uint64_t now, bool passed)
{
	uint64_t first = 0;

	if (!atomic_load_explicit(&n_held, memory_order_relaxed))
		return 0;
	pthread_mutex_lock(&held_lock);
	for (unsigned i = 0; i < HELD; i++) {
		struct held *h = &held[i];

		if (h->n && (h->due_ns <= now || (passed && h->until_next))) {
			send_plain(h->sock, h->bytes, h->n, &h->to, h->to_len);
			close(h->sock);
			h->n = 0;
			atomic_fetch_sub(&n_held, 1);
		} else if (h->n && (!first || h->due_ns < first)) {
			first = h->due_ns;
		}
	}
	pthread_mutex_unlock(&held_lock);
	return first;
}

uint64_t roce_held_tick(uint64_t now)
{
	return release(now, false);
}

static void send_by_chance(const struct burst *b, uint8_t *bytes)
{
	uint32_t bit;

	switch (chaos_packet()) {
	case CHAOS_PACKET_DROPPED:
		return;
	case CHAOS_PACKET_TWICE:
		send_plain(b->way.sock, bytes, b->bytes, &b->to, b->to_len);
		break;
	case CHAOS_PACKET_SWAPPED:
		if (hold(b, bytes, b->bytes, 0))
			return;
		break;
	case CHAOS_PACKET_CORRUPT:
		bit = chaos_packet_bit(b->bytes * 8);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		break;
	case CHAOS_PACKET_LATE:
		if (hold(b, bytes, b->bytes, chaos_packet_ns()))
			return;
		break;
	default:
		break;
	}
	send_plain(b->way.sock, bytes, b->bytes, &b->to, b->to_len);
	release(0, true);
}

/* ---- sending -------------------------------------------------------------------------------- */

static void fill(struct msghdr *m, struct iovec *iov, struct roce_batch *b, struct burst *burst)
{
	struct cmsghdr *c = &burst->control.align;
	uint16_t size = (uint16_t)burst->size;

	*iov = (struct iovec){b->bytes + burst->start, burst->bytes};
	*m = (struct msghdr){.msg_name = &burst->to,
			     .msg_namelen = burst->to_len,
			     .msg_iov = iov,
			     .msg_iovlen = 1};
	if (burst->n == 1)
		return;
	m->msg_control = &burst->control;
	m->msg_controllen = sizeof(burst->control);
	*c = (struct cmsghdr){.cmsg_level = SOL_UDP,
			      .cmsg_type = UDP_SEGMENT,
			      .cmsg_len = CMSG_LEN(sizeof(size))};
	memcpy(CMSG_DATA(c), &size, sizeof(size));
}

static void trace_burst(const struct roce_batch *b, const struct burst *burst)
{
	for (uint32_t i = 0, at = 0; at < burst->bytes; i++, at += burst->size)
		trace_wire(&burst->way.port->gid, &burst->way.to, burst->way.source_port,
			   (uint16_t)i, b->bytes + burst->start + at,
			   burst->size < burst->bytes - at ? burst->size : burst->bytes - at);
}

static void count(const struct burst *burst)
{
	atomic_fetch_add_explicit(&burst->way.port->n_sent, burst->n, memory_order_relaxed);
	if (burst->n > 1)
		atomic_fetch_add_explicit(&burst->way.port->n_bursts, 1, memory_order_relaxed);
}

/* Once: the queue pairs concerned end with their retries over. */
static void complain_too_big(const struct burst *b)
{
	static _Atomic bool said;

	if (!atomic_exchange(&said, true))
		fprintf(stderr,
			"softrdma: a packet of %u bytes is too large for the path to its peer: "
			"choose a smaller path MTU\n",
			b->size);
}

/*
 * Whether a message is sent again at once. An ICMP error of an earlier packet, to whichever peer,
 * waits in the socket and fails the next call, which then has tried nothing. The message's own
 * failure comes again. errno stays as it is.
 */
static bool sends_again(const struct roce_way *way, unsigned *n_tries)
{
	int error = errno;

	if (error == EAGAIN || error == ENOBUFS || ++*n_tries == TRIES)
		return false;
	roce_read_errors(way->port, way->sock);
	errno = error;
	return true;
}

/* Messages [from, to) of one socket. One that cannot be sent is skipped: it is lost. */
static void send_run(struct roce_batch *b, unsigned from, unsigned to)
{
	struct mmsghdr messages[MESSAGES];
	struct iovec iov[MESSAGES];
	unsigned n_tries = 0;

	for (unsigned i = from; i < to; i++) {
		fill(&messages[i].msg_hdr, &iov[i], b, &b->bursts[i]);
		count(&b->bursts[i]);
	}
	while (from < to) {
		int n = sendmmsg(b->bursts[from].way.sock, messages + from, to - from,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			from += (unsigned)n;
			n_tries = 0;
		} else if (!sends_again(&b->bursts[from].way, &n_tries)) {
			if (b->bursts[from].n > 1 && (errno == EIO || errno == EINVAL))
				atomic_store(&cannot_burst, true); /* no checksum offload here */
			if (errno == EMSGSIZE)
				complain_too_big(&b->bursts[from]);
			from++;
			n_tries = 0;
		}
	}
}

static void flush(struct roce_batch *b)
{
	for (unsigned i = 0, from = 0; i < b->n; i++) {
		if (trace_on())
			trace_burst(b, &b->bursts[i]);
		if (chaos_on() && b->bursts[i].n == 1) {
			count(&b->bursts[i]);
			send_by_chance(&b->bursts[i], b->bytes + b->bursts[i].start);
			from = i + 1;
		} else if (i + 1 == b->n || b->bursts[i + 1].way.sock != b->bursts[i].way.sock) {
			send_run(b, from, i + 1);
			from = i + 1;
		}
	}
	b->n = 0;
	b->used = 0;
}

/* ---- collecting ----------------------------------------------------------------------------- */

struct roce_batch *roce_batch_begin(void)
{
	unsigned first = atomic_fetch_add_explicit(&next_batch, 1, memory_order_relaxed);

	for (unsigned i = 0; i < BATCHES; i++)
		if (!pthread_mutex_trylock(&batches[(first + i) % BATCHES].lock))
			return &batches[(first + i) % BATCHES];
	pthread_mutex_lock(&batches[first % BATCHES].lock);
	return &batches[first % BATCHES];
}

uint8_t *roce_batch_room(struct roce_batch *b)
{
	if (b->used + ROCE_PACKET_MAX > BUFFER || b->n == MESSAGES)
		flush(b);
	return b->bytes + b->used;
}

/* Whether a packet of n bytes may follow in the last burst. */
static bool continues(const struct roce_batch *b, const struct roce_way *way, uint8_t steering,
		      size_t n)
{
	const struct burst *last = b->n ? &b->bursts[b->n - 1] : NULL;

	return last && last->way.sock == way->sock && !last->is_closed &&
	       last->steering == steering && n <= last->size && last->n < SEGMENTS &&
	       last->bytes + n <= BURST_BYTES && !chaos_on() &&
	       !atomic_load_explicit(&cannot_burst, memory_order_relaxed) &&
	       !memcmp(&last->way.to, &way->to, sizeof(way->to));
}

static struct burst *begin_burst(struct roce_batch *b, const struct roce_way *way, uint8_t steering,
				 size_t n)
{
	struct burst *burst = &b->bursts[b->n++];

	burst->way = *way;
	burst->steering = steering;
	burst->is_closed = false;
	burst->start = b->used;
	burst->size = (uint32_t)n;
	burst->n = burst->bytes = 0;
	roce_sockaddr(&way->to, way->port->scope, &burst->to, &burst->to_len);
	return burst;
}

struct roce_way roce_way_from_port(struct roce_port *port, const union ibv_gid *to)
{
	return (struct roce_way){port, *to, port->sock, ROCE_PORT};
}

void roce_batch_add(struct roce_batch *b, const struct roce_way *way, size_t n)
{
	uint8_t *bytes = b->bytes + b->used;
	struct roce_ends e = {way->port->gid, way->to, way->source_port};
	size_t whole = n + ROCE_ICRC_BYTES;
	struct burst *burst;
	uint32_t crc;

	burst = continues(b, way, bytes[STEERING_BYTE], whole)
			? &b->bursts[b->n - 1]
			: begin_burst(b, way, bytes[STEERING_BYTE], whole);
	crc = htole32(roce_icrc(&e, bytes, n, (uint16_t)burst->n, true));
	memcpy(bytes + n, &crc, sizeof(crc));
	burst->is_closed = whole < burst->size;
	burst->n++;
	burst->bytes += (uint32_t)whole;
	b->used += (uint32_t)whole;
}

void roce_batch_end(struct roce_batch *b)
{
	flush(b);
	pthread_mutex_unlock(&b->lock);
}

/* Zeros are free locks and empty batches. */
static void forget(void)
{
	for (unsigned i = 0; i < BATCHES; i++) {
		pthread_mutex_init(&batches[i].lock, NULL);
		batches[i].n = 0;
		batches[i].used = 0;
	}
	pthread_mutex_init(&held_lock, NULL);
	if (!atomic_exchange(&n_held, 0))
		return;
	for (unsigned i = 0; i < HELD; i++)
		if (held[i].n)
			close(held[i].sock);
	memset(held, 0, sizeof(held));
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
