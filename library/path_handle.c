/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths of a volume, added and removed while it is used. The caller's thread has control do it, and
 * looks until the path is what it should be; the keeper and departure.c do the rest. So a path that
 * leaves goes on leaving when the caller does not wait any longer.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "library/handle.h"
#include "library/keeper.h"
#include "library/message.h"
#include "library/options.h"
#include "library/process.h"

/* Between two looks; for a path that was never live to go. */
#define LOOK_NS (2 * NSEC_PER_MSEC)
#define GONE_NS (1 * NSEC_PER_SEC)

struct change {
	struct rblk_volume *volume;
	const char *text; /* the address, as the caller writes it */
	union addr address;
	bool is_dead;
	int r;
	struct error error;
	/* The result of the last look. */
	bool is_there;
	struct volume_path_status path;
};

/* ---- control ---- */

static void add(void *arg)
{
	struct change *change = arg;

	change->r = volume_path_add(change->volume->volume, &change->address, &change->error);
	keeper_start(change->volume);
}

static void leave(void *arg)
{
	struct change *change = arg;

	change->r = volume_path_leave(change->volume->volume, &change->address, change->is_dead,
				      &change->error);
	keeper_start(change->volume);
}

static void look(void *arg)
{
	struct change *change = arg;
	struct volume_status status;

	volume_get_status(change->volume->volume, &status);
	change->is_there = false;
	for (unsigned i = 0; i < status.n_paths && !change->is_there; i++) {
		change->path = status.paths[i];
		change->is_there = addr_is_equal(&change->path.address, &change->address);
	}
}

/* ---- waiting ---- */

static uint64_t deadline_of(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : clock_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;
}

/* Live, or in a state that only a person can change. */
static bool is_decided(const struct change *change)
{
	switch (change->path.state) {
	case VOLUME_PATH_LIVE:
	case VOLUME_PATH_DENIED:
	case VOLUME_PATH_GONE:
	case VOLUME_PATH_OTHER:
	case VOLUME_PATH_UNFIT:
		return true;
	case VOLUME_PATH_IDLE:
	case VOLUME_PATH_CONNECTING:
	case VOLUME_PATH_LOST:
	case VOLUME_PATH_LEAVING:
		break;
	}
	return !change->is_there;
}

static void wait_decided(struct change *change, uint64_t until_ns)
{
	for (;;) {
		process_call(look, change);
		if (is_decided(change) || clock_ns() >= until_ns)
			return;
		clock_sleep_ns(LOOK_NS);
	}
}

/* True: it is gone. */
static bool wait_gone(struct change *change, uint64_t until_ns)
{
	for (;;) {
		process_call(look, change);
		if (!change->is_there || clock_ns() >= until_ns)
			return !change->is_there;
		clock_sleep_ns(LOOK_NS);
	}
}

/* ---- add ---- */

/* The path is not live: it is taken out again, unless it is to be kept, or is the only hope. */
static int give_up(struct change *change, bool is_kept)
{
	struct error why = change->path.last_error;

	if (!is_kept) {
		process_call(leave, change);
		is_kept = change->r < 0 || !wait_gone(change, clock_ns() + GONE_NS);
	}
	if (*why.message)
		error_set(&change->error, why.code, why.hint, "%.100s is no path%s: %.800s",
			  change->text, is_kept ? " so far, and is tried again" : "", why.message);
	else
		error_set(&change->error, EXIT_UNREACHABLE, "is the target's portal there?",
			  "%.100s does not answer, so it is no path%s", change->text,
			  is_kept ? " so far, and is tried again" : "");
	return *why.message ? error_to_errno(&why) : -ETIMEDOUT;
}

static int add_path(struct change *change, uint32_t flags, int timeout_ms)
{
	uint64_t until_ns = deadline_of(timeout_ms);

	process_call(add, change);
	if (change->r < 0)
		return change->r;
	wait_decided(change, until_ns);
	if (change->is_there && change->path.state == VOLUME_PATH_LIVE)
		return 0;
	return give_up(change, flags & RBLK_PATH_KEEP);
}

/* ---- remove ---- */

/* A path that was written to needs a queue for its Flush. */
static struct rblk_queue *lend_queue(struct rblk_volume *volume)
{
	struct rblk_queue *queue = NULL;
	bool has_some;

	pthread_mutex_lock(&volume->lock);
	has_some = volume->n_queues > 0;
	pthread_mutex_unlock(&volume->lock);
	if (!has_some)
		rblk_queue_open(volume, &queue, NULL);
	return queue;
}

static int remove_path(struct change *change, int timeout_ms)
{
	uint64_t until_ns = deadline_of(timeout_ms);
	struct rblk_queue *lent;
	bool is_gone;

	process_call(leave, change);
	if (change->r < 0)
		return change->r;
	lent = lend_queue(change->volume);
	is_gone = wait_gone(change, until_ns);
	rblk_queue_close(lent);
	if (is_gone)
		return 0;
	error_set(&change->error, EXIT_BUSY, "it goes by itself then",
		  "%.100s is still leaving: it has I/O in flight, or its flush is not done",
		  change->text);
	return -ETIMEDOUT;
}

/* ---- both ---- */

/* known: the flags that there are. */
static int begin(struct change *change, uint32_t flags, uint32_t known)
{
	if (process_is_child())
		return error_refuse(&change->error, -ECHILD,
				    "the volume belongs to the parent process");
	if (flags & ~known)
		return error_refuse(&change->error, -EINVAL, "there are no such flags: %#x",
				    flags & ~known);
	return options_parse_address(change->text ? change->text : "", &change->address,
				     &change->error);
}

int rblk_path_add(struct rblk_volume *volume, const char *address, uint32_t flags, int timeout_ms,
		  struct rblk_error *error)
{
	struct change change = {.volume = volume, .text = address};
	int r = begin(&change, flags, RBLK_PATH_KEEP);

	if (r == 0)
		r = add_path(&change, flags, timeout_ms);
	return r < 0 ? error_to_public(error, r, &change.error) : 0;
}

int rblk_path_remove(struct rblk_volume *volume, const char *address, uint32_t flags,
		     int timeout_ms, struct rblk_error *error)
{
	struct change change = {
		.volume = volume, .text = address, .is_dead = flags & RBLK_PATH_DEAD};
	int r = begin(&change, flags, RBLK_PATH_DEAD);

	if (r == 0)
		r = remove_path(&change, timeout_ms);
	return r < 0 ? error_to_public(error, r, &change.error) : 0;
}
