/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of a poller, and how many of them each holder may have. Poller thread.
 *
 * A request takes a buffer in the name of three holders: its queue, its namespace and its host.
 * Each holder may have a share of what is free plus what it already holds. The share shrinks as
 * buffers run out. So any number of disks that hang, or of hosts that do not take their data, leave
 * something for the next holder, and a lone holder may have most of the pool. A holder that has
 * nothing may take anything that is free.
 *
 * Owner: the arenas belong to struct poller; a buffer belongs to its request, then to the response
 * that sends from it.
 */
#pragma once

#include <assert.h>

#include "base/buddy.h"
#include "target/export/qos/fair.h"

enum {
	BUFFER_UNIT = 4096,
	BUFFER_SHARE_PERCENT = 80, /* of a queue, of a namespace */
};

static_assert(BUFFER_SHARE_PERCENT < 100, "each holder leaves something");

struct request;

/* A pool of buffers, and the requests that wait for one. */
struct arena {
	/* Thread: poller */
	char *base;
	struct buddy buddy;
	struct fair waiters;	       /* of struct request (turn); flows are queues */
	bool is_exhausted;	       /* the first waiter got nothing: no request overtakes it */
	const struct request *blocker; /* that waiter, when the stall timer looked last */
};

enum buffer_holder {
	HOLDER_QUEUE,
	HOLDER_NAMESPACE,
	HOLDER_HOST,
	BUFFER_HOLDERS,
};

struct buffer {
	void *data;	     /* NULL: none */
	struct arena *arena; /* the pool that it returns to */
	size_t n_bytes;
	size_t *held[BUFFER_HOLDERS]; /* the counters that are charged; some may be NULL */
};

enum buffer_result {
	BUFFER_TAKEN,
	BUFFER_OVER_SHARE, /* some are free, but not for this holder */
	BUFFER_NONE,
	BUFFER_NEVER, /* no buffer is that large: a defect of rblkd */
};

/* Manages `size` bytes at base in blocks of max_block at most. 0 or -ENOMEM. */
int arena_init(struct arena *arena, char *base, size_t size, size_t max_block);
/* Accepts a zeroed one. */
void arena_deinit(struct arena *arena);

/* Takes n_bytes of the arena (0 < n_bytes <= max_block) and charges no holder. */
enum buffer_result buffer_take(struct arena *arena, size_t n_bytes, struct buffer *ret_buffer);
/* The same, charged to these holders. held[] counts the bytes of each holder and outlives the
 * charge. The host may have host_percent of what is free plus its own. */
enum buffer_result buffer_take_share(struct arena *arena, size_t n_bytes,
				     size_t *const held[BUFFER_HOLDERS], unsigned host_percent,
				     struct buffer *ret_buffer);
/* Ends the charge of one holder; accepts an empty buffer. */
void buffer_discharge(struct buffer *buffer, enum buffer_holder holder);
/* Returns the buffer to its arena; accepts an empty one. True: a request waits for it. */
bool buffer_put(struct buffer *buffer);
