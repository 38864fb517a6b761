/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands may use a removed namespace until they end; the pollers count them in n_in_flight. No
 * command can find the namespace any more, so these counts only fall. A timer checks whether all
 * are 0. After one more grace period no poller uses the namespace.
 *
 *   busy --> syncing --> synced --> closed
 *     `--------------------------------^   a store without a volatile cache
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/log.h"
#include "base/rcu.h"
#include "target/export/last_sync.h"
#include "target/export/retire.h"
#include "target/export/namespace_memory.h"
#include "target/export/namespace_new.h"
#include "target/store/thread.h"

enum {
	LOOK_MS = 10,
	PROGRESS_S = 5,
};

static bool is_idle(const struct namespace *ns)
{
	for (unsigned i = 0; i < POLLERS_MAX; i++)
		if (counter_get(&ns->counters[i].n_in_flight))
			return false;
	return true;
}

static void free_all(struct list *namespaces)
{
	struct list *node;

	while ((node = list_take_first(namespaces))) {
		struct namespace *ns = list_entry(node, struct namespace, node);

		log_debug("namespace %u (%s): closed", ns->nsid, last_sync_store_name(ns));
		namespace_free(ns);
	}
}

/* ---- syncing -------------------------------------------------------------------------------- */

static void on_close(struct loop_call *call)
{
	struct retire *retire = container_of(call, struct retire, close);

	free_all(&retire->synced);
	if (!list_is_empty(&retire->syncing))
		return;
	loop_timer_stop(&retire->progress);
	if (retire->on_synced)
		retire->on_synced(retire);
}

/* A backend may not be closed inside its callback. */
static void move_to_synced(struct namespace *ns)
{
	struct retire *retire = ns->retire;

	list_remove(&ns->node);
	list_add_tail(&retire->synced, &ns->node);
	loop_defer(retire->loop, &retire->close);
}

static void on_synced(struct backend_io *io, int error)
{
	struct namespace *ns = container_of(io, struct namespace, last_sync);

	if (error < 0)
		last_sync_note_failure(ns, error);
	move_to_synced(ns);
}

static void on_progress(struct loop_timer *timer)
{
	struct retire *retire = container_of(timer, struct retire, progress);

	list_for_each (node, &retire->syncing) {
		const struct namespace *ns = list_entry(node, struct namespace, node);

		log_info("namespace %u is removed; %s is not synced yet", ns->nsid,
			 last_sync_store_name(ns));
	}
	if (retire->on_progress)
		retire->on_progress();
	loop_timer_start(retire->loop, timer, PROGRESS_S * NSEC_PER_SEC);
}

static void sync(struct retire *retire, struct namespace *ns)
{
	int r = retire->thread ? 0 : backend_thread_new(retire->loop, 0, 0, &retire->thread);

	ns->retire = retire;
	list_add_tail(&retire->syncing, &ns->node);
	if (r < 0) {
		last_sync_note_failure(ns, r);
		move_to_synced(ns);
		return;
	}
	if (!loop_timer_is_running(&retire->progress))
		loop_timer_start(retire->loop, &retire->progress, PROGRESS_S * NSEC_PER_SEC);
	ns->last_sync = (struct backend_io){
		.op = BACKEND_FLUSH, .purpose = BACKEND_FOR_END, .done = on_synced};
	backend_submit(ns->backend, retire->thread, &ns->last_sync);
}

/* ---- the last commands ---------------------------------------------------------------------- */

static void close_or_sync(struct retire *retire, struct list *idle)
{
	struct list unsynced, *node;

	list_init(&unsynced);
	while ((node = list_take_first(idle))) {
		struct namespace *ns = list_entry(node, struct namespace, node);

		if (last_sync_is_needed(ns))
			sync(retire, ns);
		else
			list_add_tail(&unsynced, node);
	}
	free_all(&unsynced);
}

static void look(struct retire *retire)
{
	struct list idle;

	list_init(&idle);
	list_for_each_safe (node, &retire->busy) {
		if (!is_idle(list_entry(node, struct namespace, node)))
			continue;
		list_remove(node);
		list_add_tail(&idle, node);
	}
	if (!list_is_empty(&idle))
		rcu_wait();
	close_or_sync(retire, &idle);
	if (!list_is_empty(&retire->busy))
		loop_timer_start(retire->loop, &retire->timer, LOOK_MS * NSEC_PER_MSEC);
}

static void on_look(struct loop_timer *timer)
{
	look(container_of(timer, struct retire, timer));
}

/* ---- control -------------------------------------------------------------------------------- */

void retire_init(struct retire *retire, struct loop *loop)
{
	retire->loop = loop;
	list_init(&retire->busy);
	list_init(&retire->syncing);
	list_init(&retire->synced);
	retire->close.run = on_close;
	retire->timer.on_expiry = on_look;
	retire->progress.on_expiry = on_progress;
}

void retire_snapshot(struct retire *retire, struct snapshot *snapshot)
{
	snapshot_retire(snapshot, &retire->busy);
	look(retire);
}

static bool list_has(const struct list *namespaces, const char *path)
{
	list_for_each (node, namespaces) {
		const struct namespace *ns = list_entry(node, struct namespace, node);

		if (ns->path && !strcmp(ns->path, path))
			return true;
	}
	return false;
}

bool retire_has(const struct retire *retire, const char *path)
{
	return list_has(&retire->busy, path) || list_has(&retire->syncing, path) ||
	       list_has(&retire->synced, path);
}

void retire_let_go(struct retire *retire)
{
	list_for_each (node, &retire->busy) {
		struct backend *backend = list_entry(node, struct namespace, node)->backend;

		if (atomic_load(&backend->lost_why))
			backend->ops->let_go(backend);
	}
}

bool retire_is_synced(struct retire *retire)
{
	loop_timer_stop(&retire->timer);
	look(retire);
	return list_is_empty(&retire->syncing) && list_is_empty(&retire->synced);
}

void retire_forget_device(struct retire *retire, unsigned device_index)
{
	list_for_each (node, &retire->busy)
		namespace_memory_forget(list_entry(node, struct namespace, node), device_index);
}

void retire_end(struct retire *retire)
{
	loop_timer_stop(&retire->timer);
	loop_timer_stop(&retire->progress);
	loop_call_cancel(&retire->close);
	check(list_is_empty(&retire->syncing));
	list_for_each (node, &retire->busy) {
		check(is_idle(list_entry(node, struct namespace, node)));
	}
	free_all(&retire->synced);
	free_all(&retire->busy);
	backend_thread_free(retire->thread);
	retire->thread = NULL;
}
