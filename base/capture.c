/* SPDX-License-Identifier: BSD-3-Clause */
/* See capture.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/capture.h"
#include "base/check.h"
#include "base/clock.h"

struct capture capture_none = {.lock = PTHREAD_MUTEX_INITIALIZER};

void capture_init(struct capture *capture, uint64_t (*ns_between)(uint64_t from, uint64_t to))
{
	*capture = (struct capture){.ns_between = ns_between};
	pthread_mutex_init(&capture->lock, NULL);
}

void capture_deinit(struct capture *capture)
{
	if (!capture->ns_between)
		return;
	capture_stop(capture);
	pthread_mutex_destroy(&capture->lock);
	capture->ns_between = NULL;
}

int capture_start(struct capture *capture, uint64_t number, uint32_t first_stream, uint64_t stamp)
{
	struct capture_entry *entries = malloc(CAPTURE_ROOM * sizeof(*entries));

	if (!entries)
		return -ENOMEM;
	pthread_mutex_lock(&capture->lock);
	check(!capture->entries);
	capture->entries = entries;
	capture->first = capture->n = 0;
	capture->n_dropped = 0;
	capture->number = number;
	capture->last_stream = first_stream;
	capture->start_stamp = stamp;
	capture->start_wall_ns = clock_wall_ns();
	atomic_store(&capture->is_on, true);
	pthread_mutex_unlock(&capture->lock);
	return 0;
}

void capture_stop(struct capture *capture)
{
	struct capture_entry *entries;

	pthread_mutex_lock(&capture->lock);
	atomic_store(&capture->is_on, false);
	entries = capture->entries;
	capture->entries = NULL;
	pthread_mutex_unlock(&capture->lock);
	free(entries);
}

unsigned capture_take(struct capture *capture, struct capture_entry *ret_entries, unsigned max)
{
	unsigned n;

	pthread_mutex_lock(&capture->lock);
	n = capture->entries ? MIN(capture->n, max) : 0;
	for (unsigned i = 0; i < n; i++)
		ret_entries[i] = capture->entries[(capture->first + i) % CAPTURE_ROOM];
	capture->first = (capture->first + n) % CAPTURE_ROOM;
	capture->n -= n;
	pthread_mutex_unlock(&capture->lock);
	return n;
}

uint64_t capture_n_dropped(struct capture *capture)
{
	uint64_t n;

	pthread_mutex_lock(&capture->lock);
	n = capture->n_dropped;
	pthread_mutex_unlock(&capture->lock);
	return n;
}

/* ---- adding --------------------------------------------------------------------------------- */

/* Under the lock, with room. */
static struct capture_entry *add(struct capture *capture, enum capture_kind kind, uint32_t stream)
{
	struct capture_entry *entry =
		&capture->entries[(capture->first + capture->n) % CAPTURE_ROOM];

	capture->n++;
	*entry = (struct capture_entry){.kind = put_le32(kind), .stream = put_le32(stream)};
	return entry;
}

/* One clock for all exchanges of a capture, so that their order is that of their stamps. */
static uint64_t wall_of(const struct capture *capture, uint64_t stamp)
{
	if (stamp < capture->start_stamp)
		return capture->start_wall_ns - capture->ns_between(stamp, capture->start_stamp);
	return capture->start_wall_ns + capture->ns_between(capture->start_stamp, stamp);
}

static void add_stream(struct capture *capture, struct capture_stream *stream)
{
	struct capture_entry *entry;

	stream->number = capture->number;
	stream->id = ++capture->last_stream;
	entry = add(capture, CAPTURE_STREAM, stream->id);
	entry->active = stream->active;
	entry->passive = stream->passive;
}

void capture_add(struct capture *capture, struct capture_stream *stream, uint64_t begun,
		 uint64_t ended, const void *request, const void *answer)
{
	struct capture_entry *entry;

	pthread_mutex_lock(&capture->lock);
	if (capture->entries && capture->n + 2 > CAPTURE_ROOM) {
		capture->n_dropped++;
	} else if (capture->entries) {
		if (stream->number != capture->number)
			add_stream(capture, stream);
		entry = add(capture, CAPTURE_EXCHANGE, stream->id);
		entry->begun = put_le64(wall_of(capture, begun));
		entry->ended = put_le64(wall_of(capture, ended));
		memcpy(entry->request, request, CAPTURE_REQUEST);
		memcpy(entry->answer, answer, CAPTURE_ANSWER);
	}
	pthread_mutex_unlock(&capture->lock);
}

/* ---- streams -------------------------------------------------------------------------------- */

static void set_end(struct capture_end *end, const union addr *addr)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	*end = (struct capture_end){.port = put_le16(addr_port(addr))};
	if (addr->sa.sa_family == AF_INET6) {
		memcpy(end->address, &addr->in6.sin6_addr, 16);
		return;
	}
	memcpy(end->address, mapped, sizeof(mapped));
	memcpy(end->address + sizeof(mapped), &addr->in.sin_addr, 4);
}

void capture_stream_init(struct capture_stream *stream, const union addr *active,
			 const union addr *passive)
{
	*stream = (struct capture_stream){0};
	set_end(&stream->active, active);
	set_end(&stream->passive, passive);
}

void capture_stream_hello(struct capture_end *end, const void *bytes, size_t n)
{
	if (n) /* bytes may be NULL then */
		memcpy(end->hello, bytes, MIN(n, sizeof(end->hello)));
}
