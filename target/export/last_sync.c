/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See last_sync.h. Each sync is a flush of the backend, on a worker thread, so that the control
 * thread still takes a second signal. Stores are synced beside each other, as many as the workers
 * allow.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "target/export/health/health.h"
#include "target/export/io_errors.h"
#include "target/export/last_sync.h"
#include "target/export/subsystem.h"
#include "target/store/standby.h"
#include "target/store/thread.h"

enum {
	FIRST_PROGRESS_S = 2,
	PROGRESS_S = 10,
};

struct last_sync_store {
	struct backend_io io;
	struct last_sync *sync;
	struct namespace *ns;
	bool is_over;
};

bool last_sync_is_needed(const struct namespace *ns)
{
	return !backend_stands_by(ns->backend) && ns->backend->limits.has_volatile_cache &&
	       !ns->backend->limits.is_read_only;
}

const char *last_sync_store_name(const struct namespace *ns)
{
	return ns->path ? ns->path : ns->kind;
}

/* The I/O error itself is in the log already, unless the store had failed before. */
void last_sync_note_failure(struct namespace *ns, int error)
{
	if (ns->health)
		health_note_loss(ns->health);
	log_err_about(
		LOG_ABOUT(.subsystem = ns->errors->subnqn, .nsid = ns->nsid),
		"closing: %s cannot be synced: %s: writes that were acknowledged and not flushed may be lost",
		last_sync_store_name(ns), strerror(-error));
}

/* ---- progress ------------------------------------------------------------------------------- */

static const struct last_sync_store *first_left(const struct last_sync *sync)
{
	const struct last_sync_store *store = sync->stores;

	while (store->is_over)
		store++;
	return store;
}

static void on_progress(struct loop_timer *timer)
{
	struct last_sync *sync = container_of(timer, struct last_sync, progress);

	log_info("stopping: %u of %u stores are synced after %u s; %s is not yet",
		 sync->n - sync->n_left, sync->n,
		 (unsigned)((clock_ns() - sync->since_ns) / NSEC_PER_SEC),
		 last_sync_store_name(first_left(sync)->ns));
	if (sync->on_progress)
		sync->on_progress();
	loop_timer_start(sync->loop, timer, PROGRESS_S * NSEC_PER_SEC);
}

/* ---- syncing -------------------------------------------------------------------------------- */

static void on_end(struct loop_call *call)
{
	struct last_sync *sync = container_of(call, struct last_sync, end);

	loop_timer_stop(&sync->progress);
	sync->state = LAST_SYNC_OVER;
	sync->done(sync);
}

static void on_synced(struct backend_io *io, int error)
{
	struct last_sync_store *store = container_of(io, struct last_sync_store, io);
	struct last_sync *sync = store->sync;

	store->is_over = true;
	sync->n_left--;
	if (error) {
		sync->n_failed++;
		last_sync_note_failure(store->ns, error);
	}
	if (!sync->n_left)
		loop_defer(sync->loop, &sync->end);
}

static void collect(struct last_sync *sync, const struct snapshot *snapshot)
{
	for (unsigned i = 0; i < snapshot->n_subsystems; i++) {
		const struct subsystem *subsystem = &snapshot->subsystems[i];

		for (unsigned j = 0; j < subsystem->n_namespaces; j++) {
			struct namespace *ns = subsystem->namespaces[j];

			if (!last_sync_is_needed(ns))
				continue;
			if (sync->stores)
				sync->stores[sync->n] = (struct last_sync_store){.sync = sync,
										 .ns = ns};
			sync->n++;
		}
	}
}

static int prepare(struct last_sync *sync, const struct snapshot *snapshot)
{
	collect(sync, snapshot);
	sync->stores = calloc(sync->n + 1, sizeof(*sync->stores));
	if (!sync->stores)
		return -ENOMEM;
	sync->n = 0;
	collect(sync, snapshot);
	return backend_thread_new(sync->loop, 0, 0, &sync->thread);
}

static void submit_all(struct last_sync *sync)
{
	sync->n_left = sync->n;
	for (unsigned i = 0; i < sync->n; i++) {
		struct last_sync_store *store = &sync->stores[i];

		store->io = (struct backend_io){
			.op = BACKEND_FLUSH, .purpose = BACKEND_FOR_END, .done = on_synced};
		backend_submit(store->ns->backend, sync->thread, &store->io);
	}
}

void last_sync_start(struct last_sync *sync, struct loop *loop, const struct snapshot *snapshot)
{
	int r;

	if (sync->state != LAST_SYNC_IDLE)
		return;
	sync->state = LAST_SYNC_RUNNING;
	sync->loop = loop;
	sync->since_ns = clock_ns();
	sync->end.run = on_end;
	sync->progress.on_expiry = on_progress;
	r = prepare(sync, snapshot);
	if (r < 0) {
		sync->n_failed = sync->n;
		sync->n = 0;
		log_errno(r, "stopping: stores cannot be synced");
	}
	if (!sync->n) {
		loop_defer(loop, &sync->end);
		return;
	}
	loop_timer_start(loop, &sync->progress, FIRST_PROGRESS_S * NSEC_PER_SEC);
	submit_all(sync);
}

void last_sync_free(struct last_sync *sync)
{
	if (!sync->loop)
		return;
	loop_timer_stop(&sync->progress);
	loop_call_cancel(&sync->end);
	backend_thread_free(sync->thread);
	free(sync->stores);
}
