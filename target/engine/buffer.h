/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A poller's buffers, and who may have how many. Everything here runs on the poller.
 *
 * Who asks for a buffer is charged for it three times: as a queue, as a namespace and as a host.
 * Each may have a part of what is free and its own. So the more is taken, the less each may have:
 * any number of disks that hang, or of hosts that do not take their data, leave something for the
 * next one; alone, each may have most of it. Who has nothing may have anything that is free.
 */
#pragma once

#include "base/buddy.h"
#include "target/export/qos/fair.h"

enum {
	BUFFER_UNIT = 4096,
	BUFFER_SHARE_PERCENT = 80, /* of a queue, of a namespace */
};

struct request;

/* A pool of buffers, and those who wait for one. */
struct arena {
	/* Thread: poller */
	char *base;
	struct buddy buddy;
	struct fair waiters;	       /* of struct request (turn); flows are queues */
	bool is_exhausted;	       /* the first who waits got nothing: no one overtakes it */
	const struct request *blocker; /* it, when the stall timer looked last */
};

enum buffer_holder {
	HOLDER_QUEUE,
	HOLDER_NAMESPACE,
	HOLDER_HOST,
	BUFFER_HOLDERS,
};

struct buffer {
	void *data;	     /* NULL: none */
	struct arena *arena; /* where it goes back to */
	size_t n_bytes;
	size_t *held[BUFFER_HOLDERS]; /* who is charged; some may be NULL */
};

enum buffer_result {
	BUFFER_TAKEN,
	BUFFER_OVER_SHARE, /* there are some, for others */
	BUFFER_NONE,
	BUFFER_NEVER, /* none is as large: a mistake of ours */
};

/* size bytes at base, with blocks of max_block at most. 0 or -ENOMEM. */
int arena_init(struct arena *arena, char *base, size_t size, size_t max_block);
/* Accepts a zeroed one. */
void arena_deinit(struct arena *arena);

/* n_bytes of arena (0 < n_bytes <= max_block), charged to nobody. */
enum buffer_result buffer_take(struct arena *arena, size_t n_bytes, struct buffer *ret_buffer);
/* The same for these holders, each as many bytes as it has now; they outlive the charge. The host
 * may have this many percent. */
enum buffer_result buffer_take_share(struct arena *arena, size_t n_bytes,
				     size_t *const held[BUFFER_HOLDERS], unsigned host_percent,
				     struct buffer *ret_buffer);
/* One of them has no part in it any more; accepts an empty buffer. */
void buffer_discharge(struct buffer *buffer, enum buffer_holder holder);
/* Accepts an empty one. True: somebody waits for it. */
bool buffer_put(struct buffer *buffer);
