/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See store_sizes.h. A store reports a change on a thread of its own (backend_changed). One message
 * takes all reports to control, which looks at each namespace. A smaller size is published as well:
 * the bytes are gone already.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/rcu.h"
#include "base/units.h"
#include "target/command/admin/notice.h"
#include "target/engine/record/target.h"
#include "target/export/namespace_size.h"
#include "target/operations/change/store_sizes.h"
#include "target/store/grow.h"

struct store_sizes {
	struct target *target; /* borrowed */
	struct loop_msg msg;   /* owned by the loop while is_sent */
	_Atomic bool is_sent;  /* any thread */
};

static void follow(struct target *target, const struct subsystem *subsystem, struct namespace *ns)
{
	uint64_t old_size = namespace_bytes(ns), size;
	char was[UNITS_MAX], is[UNITS_MAX];
	struct error error;

	if (namespace_resize(ns, 0, true, &error) < 0) {
		log_warn_about(LOG_ABOUT(.subsystem = subsystem->nqn, .nsid = ns->nsid),
			       "%s, namespace %u keeps its size: %s", subsystem->nqn, ns->nsid,
			       error.message);
		return;
	}
	size = namespace_bytes(ns);
	if (size == old_size)
		return;
	notice_namespace(target, subsystem->nqn, ns->nsid);
	log_info_about(LOG_ABOUT(.subsystem = subsystem->nqn, .nsid = ns->nsid),
		       "%s, namespace %u: its store went from %s to %s", subsystem->nqn, ns->nsid,
		       units_format_exact(was, old_size), units_format_exact(is, size));
}

void store_sizes_follow(struct target *target)
{
	const struct snapshot *snapshot = rcu_get(&target->snapshot);

	for (unsigned i = 0; snapshot && i < snapshot->n_subsystems; i++) {
		const struct subsystem *subsystem = &snapshot->subsystems[i];

		for (unsigned j = 0; j < subsystem->n_namespaces; j++) {
			struct namespace *ns = subsystem->namespaces[j];

			if (atomic_exchange(&ns->backend->has_changed, false))
				follow(target, subsystem, ns);
		}
	}
}

static void on_message(struct loop_msg *msg)
{
	struct store_sizes *sizes = container_of(msg, struct store_sizes, msg);

	atomic_store(&sizes->is_sent, false);
	store_sizes_follow(sizes->target);
	if (sizes->target->on_store_change)
		sizes->target->on_store_change(sizes->target);
}

/* Any thread. */
static void on_change(void *context)
{
	struct store_sizes *sizes = context;

	if (!atomic_exchange(&sizes->is_sent, true))
		loop_send(&sizes->target->loop, &sizes->msg);
}

int store_sizes_start(struct target *target)
{
	target->sizes = calloc(1, sizeof(*target->sizes));
	if (!target->sizes)
		return -ENOMEM;
	target->sizes->target = target;
	target->sizes->msg.run = on_message;
	backend_on_change(on_change, target->sizes);
	return 0;
}

void store_sizes_stop(struct target *target)
{
	backend_on_change(NULL, NULL);
	free(target->sizes);
	target->sizes = NULL;
}
