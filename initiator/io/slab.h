/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data buffers of one I/O queue. The slab reserves addresses for all of its memory. The memory
 * is registered in segments, each as large as those before it together, because a device pins what
 * is registered. One segment is there from the beginning. An I/O that finds no buffer lets the slab
 * grow by a segment, and a slab that is little used for some seconds gives its last one back.
 *
 * Like its queue, a slab has two sides. They exchange two messages, one at a time:
 *
 *   control loop (connection_memory.c)         I/O loop (slab.c)
 *   registers a segment, or lets go of one  <-- resize --  a buffer is missing, or few are used
 *                                           -- resized ->  the segment's buffers are there
 *
 * Segments are registered anew for each association, with the protection domain of its path: so a
 * remote key is of no use on another path, and dies with the queue pair it was given to.
 */
#pragma once

#include "base/arena_memory.h"
#include "base/bits.h"
#include "base/buddy.h"
#include "base/loop.h"
#include "transport/device.h"

enum {
	SLAB_UNIT = 4096,
	SLAB_FIRST = 2 << 20, /* bytes of the first segment, or the largest block if that is more */
	SLAB_SEGMENTS_MAX = 24, /* 2 MiB doubled so often: more than can be configured */
};

enum slab_state {
	SLAB_STEADY,
	SLAB_GROWING,	/* control registers a segment */
	SLAB_SHRINKING, /* control lets go of the last one, whose buffers are taken out */
	SLAB_STUCK,	/* the last growth failed: the next one is tried later */
};

/* The registrations of a slab's segments for one path. Control writes them; between attach and
 * stopped of their lane the I/O loop reads those of the segments that it has open. */
struct slab_keys {
	struct mr mrs[SLAB_SEGMENTS_MAX];
};

struct slab {
	/* Thread: control */
	unsigned n_backed; /* segments that are registered with each association */

	/* messages, each the receiver's from sending until it is run; the result travels with it */
	struct loop_msg resize_msg, resized_msg;
	bool wants_more; /* resize: one segment more, or one less */
	int result;	 /* resized: 0 or -errno */

	/* Thread: I/O loop; made and freed by control */
	struct loop *loop, *control; /* borrowed */
	struct arena_memory arena;
	uint8_t *memory; /* the arena's base */
	size_t n_bytes;
	unsigned first_shift; /* log2 of the first segment */
	unsigned n_segments, n_open;
	enum slab_state state;
	unsigned n_quiet; /* looks in a row that found little used */
	struct loop_timer timer;
	void (*on_steady)(struct slab *slab); /* slab_quit waits; or NULL */
	struct buddy buddy;
	struct list waiters; /* loop_call.node, in order */
};

struct slab_config {
	struct loop *control, *loop; /* borrowed */
	size_t n_bytes;
	size_t max_block; /* a power of 2 */
	bool is_whole;	  /* all segments are there from the beginning */
	void (*on_resize)(
		struct loop_msg *msg); /* control's: slab_grow or slab_shrink, then resized_msg */
};

/* ---- control ---- */

/* 0 or -ENOMEM. */
int slab_init(struct slab *slab, const struct slab_config *config);
/* Accepts a zeroed one. No buffer is taken. */
void slab_deinit(struct slab *slab);
/* Registers the memory that is in use, for a new association. 0 or -errno, as mr_open. */
int slab_register(const struct slab *slab, struct slab_keys *keys, const struct domain *domain,
		  enum mr_access access);
void slab_deregister(struct slab_keys *keys); /* accepts one that is not registered */
/* The segment that comes next gets its pages, which the kernel needs some milliseconds to find. */
void slab_populate_next(const struct slab *slab);
/* Registers the segment that comes next, with one association that is there now. 0 or -errno. */
int slab_register_next(const struct slab *slab, struct slab_keys *keys, const struct domain *domain,
		       enum mr_access access);
/* Takes it back, where it was registered. */
void slab_deregister_next(const struct slab *slab, struct slab_keys *keys);
/* The next segment is registered with all associations that are there, and in use from now on. */
void slab_grow(struct slab *slab);
/* The last segment is out of use: it is the next one again, to be deregistered. */
void slab_shrink(struct slab *slab);
/* The next segment is registered nowhere: its pages are the kernel's again. */
void slab_drop_next(struct slab *slab);
size_t slab_backed_bytes(const struct slab *slab);

/* Anonymous memory that a child process does not get: registered pages must not become
 * copy-on-write. NULL when there is none. */
void *slab_map(size_t n_bytes);
void slab_unmap(void *memory, size_t n_bytes); /* accepts NULL */

/* ---- I/O loop ---- */

/* No timer and no message of the slab is under way when on_steady is called, perhaps at once. */
void slab_quit(struct slab *slab, void (*on_steady)(struct slab *slab));

/* For the queue: volume_buffer_take and the like (volume_io.h). */
void *slab_take(struct slab *slab, size_t n_bytes);
void slab_give(struct slab *slab, void *buffer);
void slab_wait(struct slab *slab, struct loop_call *waiter);
void slab_wait_cancel(struct slab *slab, struct loop_call *waiter);

/* The registration of a buffer: segment n begins at first << (n - 1). */
static inline const struct mr *slab_mr(const struct slab *slab, const struct slab_keys *keys,
				       const void *buffer)
{
	size_t offset = (size_t)((const uint8_t *)buffer - slab->memory);

	return &keys->mrs[log2_floor((offset >> slab->first_shift) * 2 + 1)];
}
