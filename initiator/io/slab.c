/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data buffers of a queue, and the list of those that wait for one.
 *
 * The front end takes a buffer, fills it or has it filled by the target, and gives it back; all of
 * that on the queue's I/O loop. When none is free, the slab grows, and the front end leaves a
 * loop_call. Each buffer that comes back wakes the one that waited longest. One give wakes one
 * waiter, and when that one gives its buffer back it wakes the next: no waiter is left behind.
 *
 * Invariant: a buffer belongs to at most one I/O; an I/O keeps it over reconnects. So a
 * buffer is never in the hands of two queue pairs (reliability I2): commands go back to
 * their queue only when the old queue pair is drained, and its keys are deregistered with
 * it.
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/states.h"
#include "initiator/io/slab.h"

void *slab_map(size_t n_bytes)
{
	void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, n_bytes, MADV_DONTFORK);
	return p;
}

void slab_unmap(void *memory, size_t n_bytes)
{
	if (memory)
		munmap(memory, n_bytes);
}

/* ---- segments ---- */

static size_t begin_of(const struct slab *slab, unsigned segment)
{
	return segment ? MIN(slab->n_bytes, (size_t)1 << (slab->first_shift + segment - 1)) : 0;
}

static size_t end_of(const struct slab *slab, unsigned segment)
{
	return begin_of(slab, segment + 1);
}

static unsigned count_segments(const struct slab *slab)
{
	unsigned n = 1;

	while (end_of(slab, n - 1) < slab->n_bytes)
		n++;
	return n;
}

static int open_mr(const struct slab *slab, struct slab_keys *keys, unsigned segment,
		   const struct domain *domain, enum mr_access access)
{
	size_t begin = begin_of(slab, segment);

	return mr_open(domain, slab->memory + begin, end_of(slab, segment) - begin, access,
		       &keys->mrs[segment]);
}

int slab_register(const struct slab *slab, struct slab_keys *keys, const struct domain *domain,
		  enum mr_access access)
{
	int r = 0;

	for (unsigned i = 0; i < slab->n_backed && r == 0; i++)
		r = open_mr(slab, keys, i, domain, access);
	return r;
}

void slab_deregister(struct slab_keys *keys)
{
	for (unsigned i = 0; i < SLAB_SEGMENTS_MAX; i++)
		mr_close(&keys->mrs[i]);
}

int slab_register_next(const struct slab *slab, struct slab_keys *keys, const struct domain *domain,
		       enum mr_access access)
{
	return open_mr(slab, keys, slab->n_backed, domain, access);
}

void slab_deregister_next(const struct slab *slab, struct slab_keys *keys)
{
	mr_close(&keys->mrs[slab->n_backed]);
}

void slab_populate_next(const struct slab *slab)
{
	size_t begin = begin_of(slab, slab->n_backed);

	arena_memory_populate(&slab->arena, begin, end_of(slab, slab->n_backed) - begin);
}

void slab_grow(struct slab *slab)
{
	check(slab->n_backed < slab->n_segments);
	slab->n_backed++;
}

void slab_shrink(struct slab *slab)
{
	check(slab->n_backed > 1);
	slab->n_backed--;
}

void slab_drop_next(struct slab *slab)
{
	size_t begin = begin_of(slab, slab->n_backed);

	arena_memory_drop(&slab->arena, begin, end_of(slab, slab->n_backed) - begin);
}

size_t slab_backed_bytes(const struct slab *slab)
{
	return begin_of(slab, slab->n_backed);
}

/* ---- growing and shrinking ---- */

#define LOOK_NS	 (2 * NSEC_PER_SEC) /* between two looks at how much is used */
#define STUCK_NS (10 * NSEC_PER_SEC)

enum {
	QUIET_LOOKS = 3,
	LITTLE = 4, /* at most one part of so many in use */
};

static const struct state_rule rules[] = {
	[SLAB_STEADY] = {"steady", STATE_TO(SLAB_GROWING) | STATE_TO(SLAB_SHRINKING)},
	[SLAB_GROWING] = {"growing", STATE_TO(SLAB_STEADY) | STATE_TO(SLAB_STUCK)},
	[SLAB_SHRINKING] = {"shrinking", STATE_TO(SLAB_STEADY)},
	[SLAB_STUCK] = {"stuck", STATE_TO(SLAB_STEADY)},
};

static void move(struct slab *slab, enum slab_state next)
{
	states_move("slab", rules, &slab->state, next);
}

static void resize(struct slab *slab, enum slab_state next)
{
	move(slab, next);
	slab->wants_more = next == SLAB_GROWING;
	loop_send(slab->control, &slab->resize_msg);
}

/* An I/O found no buffer. */
static NOINLINE void want_more(struct slab *slab)
{
	slab->n_quiet = 0;
	if (slab->state == SLAB_STEADY && slab->n_open < slab->n_segments && !slab->on_steady)
		resize(slab, SLAB_GROWING);
}

static void wake_all(struct slab *slab)
{
	struct list *node;

	while ((node = list_take_first(&slab->waiters)))
		loop_defer(slab->loop, list_entry(node, struct loop_call, node));
}

static void watch(struct slab *slab)
{
	if (slab->on_steady)
		return;
	if (slab->state == SLAB_STUCK)
		loop_timer_start(slab->loop, &slab->timer, STUCK_NS);
	else if (slab->n_open > 1)
		loop_timer_start(slab->loop, &slab->timer, LOOK_NS);
}

static void on_resized(struct loop_msg *msg)
{
	struct slab *slab = container_of(msg, struct slab, resized_msg);
	unsigned next = slab->n_open;

	if (slab->state == SLAB_GROWING && slab->result == 0) {
		buddy_open(&slab->buddy, begin_of(slab, next), end_of(slab, next));
		slab->n_open++;
	}
	move(slab, slab->result < 0 ? SLAB_STUCK : SLAB_STEADY);
	watch(slab);
	wake_all(slab); /* those that find nothing wait again in the same order, and it grows on */
	if (slab->on_steady)
		slab->on_steady(slab);
}

static size_t n_taken_bytes(const struct slab *slab)
{
	return begin_of(slab, slab->n_open) - slab->buddy.n_free_bytes;
}

static bool is_little_used(const struct slab *slab)
{
	return n_taken_bytes(slab) <= begin_of(slab, slab->n_open) / LITTLE;
}

static void on_timer(struct loop_timer *timer)
{
	struct slab *slab = container_of(timer, struct slab, timer);
	unsigned last = slab->n_open - 1;

	if (slab->state == SLAB_STUCK)
		move(slab, SLAB_STEADY);
	slab->n_quiet = is_little_used(slab) ? slab->n_quiet + 1 : 0;
	if (slab->state == SLAB_STEADY && last > 0 && slab->n_quiet >= QUIET_LOOKS &&
	    buddy_close(&slab->buddy, begin_of(slab, last), end_of(slab, last))) {
		slab->n_open--;
		resize(slab, SLAB_SHRINKING);
		return; /* on_resized looks on */
	}
	watch(slab);
}

void slab_quit(struct slab *slab, void (*on_steady)(struct slab *slab))
{
	slab->on_steady = on_steady;
	loop_timer_stop(&slab->timer);
	if (slab->state == SLAB_STEADY || slab->state == SLAB_STUCK)
		on_steady(slab);
}

/* ---- making ---- */

int slab_init(struct slab *slab, const struct slab_config *config)
{
	size_t first = MAX((size_t)SLAB_FIRST, config->max_block);
	int r;

	check(config->n_bytes && config->n_bytes % SLAB_UNIT == 0);
	*slab = (struct slab){
		.resize_msg.run = config->on_resize,
		.resized_msg.run = on_resized,
		.loop = config->loop,
		.control = config->control,
		.n_bytes = config->n_bytes,
		.first_shift = log2_ceil(first),
		.timer.on_expiry = on_timer,
	};
	list_init(&slab->waiters);
	r = arena_memory_map(&slab->arena, slab->n_bytes);
	if (r < 0)
		return r;
	slab->memory = slab->arena.base;
	slab->n_segments = count_segments(slab);
	check(slab->n_segments <= SLAB_SEGMENTS_MAX);
	r = buddy_init(&slab->buddy, slab->n_bytes, SLAB_UNIT, config->max_block);
	if (r < 0)
		return r;
	slab->n_backed = slab->n_open = config->is_whole ? slab->n_segments : 1;
	arena_memory_populate(&slab->arena, 0, slab_backed_bytes(slab));
	if (slab->n_open < slab->n_segments)
		buddy_close(&slab->buddy, end_of(slab, 0), slab->n_bytes);
	return 0;
}

void slab_deinit(struct slab *slab)
{
	check(n_taken_bytes(slab) == 0);
	buddy_deinit(&slab->buddy);
	arena_memory_unmap(&slab->arena);
	*slab = (struct slab){0};
}

/* ---- buffers ---- */

void *slab_take(struct slab *slab, size_t n_bytes)
{
	size_t offset;
	int r = buddy_take(&slab->buddy, n_bytes, &offset);

	check(r != -EMSGSIZE); /* no give could ever satisfy it */
	if (r < 0) {
		want_more(slab);
		return NULL;
	}
	return slab->memory + offset;
}

static void wake_one(struct slab *slab)
{
	struct list *node = list_take_first(&slab->waiters);

	if (node)
		loop_defer(slab->loop, list_entry(node, struct loop_call, node));
}

void slab_give(struct slab *slab, void *buffer)
{
	size_t offset = (size_t)((uint8_t *)buffer - slab->memory);

	buddy_give(&slab->buddy, offset);
	wake_one(slab);
}

void slab_wait(struct slab *slab, struct loop_call *waiter)
{
	check(!waiter->is_queued);
	if (waiter->node.next)
		list_remove(&waiter->node); /* already waiting: to the end */
	list_add_tail(&slab->waiters, &waiter->node);
}

void slab_wait_cancel(struct slab *slab, struct loop_call *waiter)
{
	if (waiter->is_queued) {
		loop_call_cancel(waiter);
		wake_one(slab); /* the buffer it was woken for goes to the next waiter */
	} else if (waiter->node.next) {
		list_remove(&waiter->node);
	}
}
