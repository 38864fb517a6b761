/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture: the exchanges that threads complete while it runs, for a reader in another process. An
 * exchange is a request and its answer, the first bytes of each, with the times of both. A stream
 * is a connection with its two ends. The bytes are the caller's protocol.
 *
 * While no capture runs, an exchange costs one load and one branch. While one runs, it costs a
 * lock, which only the reader and the threads of the same struct take, and a copy into memory that
 * was allocated at the start. An exchange that finds no room is counted and left out.
 *
 * One thread owns a struct capture: init, start, take, stop. Any thread adds.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/addr.h"
#include "base/bits.h"
#include "base/bytes.h"

enum {
	CAPTURE_HELLO = 32, /* bytes of what an end sends when it connects */
	CAPTURE_REQUEST = 64,
	CAPTURE_ANSWER = 16,
	CAPTURE_ROOM = 16384, /* entries */
};

enum capture_kind {
	CAPTURE_STREAM = 1, /* before the first exchange of a stream */
	CAPTURE_EXCHANGE = 2,
};

/* An end of a stream. IPv4 addresses are mapped into IPv6. */
struct capture_end {
	uint8_t address[16];
	le16 port;
	uint8_t hello[CAPTURE_HELLO];
};

/* As the reader gets it. Times: ns since 1970, in UTC. */
struct capture_entry {
	le32 kind, stream;
	union {
		struct {
			struct capture_end active,
				passive; /* active: it asked for the connection */
		};
		struct {
			le64 begun, ended;
			uint8_t request[CAPTURE_REQUEST];
			uint8_t answer[CAPTURE_ANSWER];
		};
	};
};
static_assert(sizeof(struct capture_entry) == 108, "the same for every reader");

/* A connection, as the thread that adds its exchanges keeps it. */
struct capture_stream {
	/* Thread: the one that adds; the owner sets it before */
	struct capture_end active, passive;
	uint64_t number; /* of the capture that knows it; 0: none */
	uint32_t id;	 /* in that capture */
};

struct capture {
	_Atomic bool is_on; /* a look ahead: the lock decides */
	pthread_mutex_t lock;
	/* Under the lock */
	struct capture_entry *entries; /* owned: CAPTURE_ROOM, a ring; NULL: no capture runs */
	unsigned first, n;
	uint64_t n_dropped; /* exchanges, since the start */
	uint64_t number;    /* of the capture, from 1; the same for all that belong together */
	uint32_t last_stream;
	uint64_t start_stamp, start_wall_ns;
	/* Never changes. Nanoseconds of a difference of two stamps, the later one second. */
	uint64_t (*ns_between)(uint64_t from, uint64_t to);
};

/* One that is always off, for code without a capture. */
extern struct capture capture_none;

/* Owner. ns_between reads the stamps of this program. */
void capture_init(struct capture *capture, uint64_t (*ns_between)(uint64_t from, uint64_t to));
/* Owner, when no thread adds any more. Accepts a zeroed one. */
void capture_deinit(struct capture *capture);
/* Owner. Allocates; streams are numbered after first_stream. stamp: now. 0 or -ENOMEM. */
int capture_start(struct capture *capture, uint64_t number, uint32_t first_stream, uint64_t stamp);
/* Owner. Frees what was not taken. Accepts one that does not run. */
void capture_stop(struct capture *capture);
/* Owner. Moves at most max entries, the oldest first. Returns their number. */
unsigned capture_take(struct capture *capture, struct capture_entry *ret_entries, unsigned max);
/* Owner. Exchanges left out since the start. */
uint64_t capture_n_dropped(struct capture *capture);

/* Owner of a stream, while no thread adds to it: a new connection. The bytes are copied. */
void capture_stream_init(struct capture_stream *stream, const union addr *active,
			 const union addr *passive);
void capture_stream_hello(struct capture_end *end, const void *bytes, size_t n);

/* Any thread. */
static inline bool capture_is_on(const struct capture *capture)
{
	return UNLIKELY(atomic_load_explicit(&capture->is_on, memory_order_relaxed));
}
/* Any thread; no two of them add to one stream at once. begun and ended are stamps. request has
 * CAPTURE_REQUEST bytes, answer CAPTURE_ANSWER. */
COLD void capture_add(struct capture *capture, struct capture_stream *stream, uint64_t begun,
		      uint64_t ended, const void *request, const void *answer);
