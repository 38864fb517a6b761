/* SPDX-License-Identifier: BSD-3-Clause */
/* See queue_path.h. */
#include "base/bits.h"
#include "base/rcu.h"
#include "target/engine/record/controller.h"
#include "target/engine/record/portal.h"
#include "target/engine/queue/queue.h"
#include "target/engine/queue/queue_path.h"

static NOINLINE const struct subsystem *find_subsystem(struct queue *queue,
						       const struct snapshot *snapshot)
{
	struct subsystem_ref *ref = &queue->subsystem_ref;

	ref->subsystem = snapshot_find(snapshot, queue->controller->subnqn);
	ref->generation = snapshot->generation;
	return ref->subsystem;
}

const struct subsystem *queue_subsystem(struct queue *queue)
{
	const struct snapshot *snapshot = rcu_get(&queue->target->snapshot);
	const struct subsystem_ref *ref = &queue->subsystem_ref;

	if (LIKELY(ref->generation == snapshot->generation && ref->subsystem))
		return ref->subsystem;
	return find_subsystem(queue, snapshot);
}

const struct ana *queue_ana(struct queue *queue)
{
	const struct subsystem *subsystem = queue_subsystem(queue);

	return subsystem ? rcu_get(&subsystem->ana) : NULL;
}

enum nvme_status queue_check_path(struct queue *queue, uint32_t nsid)
{
	const struct ana *ana = queue_ana(queue);

	return ana ? ana_check(ana, nsid, queue->controller->portal->index) : NVME_OK;
}
