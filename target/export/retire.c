/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands may use a removed namespace until they end; the pollers count them in n_in_flight. No
 * command can find the namespace any more, so these counts only fall. A timer checks whether all
 * are 0. After one more grace period no poller uses the namespace, and it is closed.
 */
#include "base/check.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/rcu.h"
#include "target/export/retire.h"
#include "target/export/namespace_memory.h"

enum {
	LOOK_MS = 10,
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

		log_debug("namespace %u (%s): closed", ns->nsid, ns->path ? ns->path : ns->kind);
		namespace_free(ns);
	}
}

static void look(struct retire *retire)
{
	struct list idle;

	list_init(&idle);
	list_for_each_safe (node, &retire->namespaces) {
		if (!is_idle(list_entry(node, struct namespace, node)))
			continue;
		list_remove(node);
		list_add_tail(&idle, node);
	}
	if (!list_is_empty(&idle))
		rcu_wait();
	free_all(&idle);
	if (!list_is_empty(&retire->namespaces))
		loop_timer_start(retire->loop, &retire->timer, LOOK_MS * NSEC_PER_MSEC);
}

static void on_look(struct loop_timer *timer)
{
	look(container_of(timer, struct retire, timer));
}

void retire_init(struct retire *retire, struct loop *loop)
{
	retire->loop = loop;
	list_init(&retire->namespaces);
	retire->timer.on_expiry = on_look;
}

void retire_snapshot(struct retire *retire, struct snapshot *snapshot)
{
	snapshot_retire(snapshot, &retire->namespaces);
	look(retire);
}

void retire_forget_device(struct retire *retire, unsigned device_index)
{
	list_for_each (node, &retire->namespaces)
		namespace_memory_forget(list_entry(node, struct namespace, node), device_index);
}

void retire_end(struct retire *retire)
{
	loop_timer_stop(&retire->timer);
	list_for_each (node, &retire->namespaces) {
		check(is_idle(list_entry(node, struct namespace, node)));
	}
	free_all(&retire->namespaces);
}
