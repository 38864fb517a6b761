/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "initiator/control/connection.h"
#include "initiator/control/connection_memory.h"
#include "initiator/control/path_impl.h"
#include "initiator/control/volume_impl.h"
#include "initiator/io/command_windows.h"
#include "initiator/io/queue.h"

static enum mr_access slab_access(const struct lane *lane)
{
	return lane->limits.has_windows ? MR_WINDOWS : MR_REMOTE_BOTH;
}

static int fail_memory(struct error *error, int r, size_t n_bytes)
{
	char text[160];
	const char *hint = mr_explain(r, n_bytes, text, sizeof(text));

	error_set(error, EXIT_PRIVILEGE, hint, "%s", text);
	return r;
}

int connection_register_memory(struct lane *lane, struct error *error)
{
	const struct domain *domain = &lane->path->controller.domain;
	const struct slab *slab = &lane->queue->slab;
	int r = slab_register(slab, &lane->keys, domain, slab_access(lane));

	/* The target reads what lies beside the commands: Connect data, ranges. */
	if (r == 0)
		r = mr_open(domain, lane->table.memory, lane->table.memory_bytes, MR_REMOTE_READ,
			    &lane->table.mr);
	if (r < 0)
		return fail_memory(error, r, slab_backed_bytes(slab) + lane->table.memory_bytes);
	if (lane->limits.has_windows)
		r = command_windows_open(&lane->table, domain);
	if (r < 0)
		error_set(error, EXIT_FAILED, NULL, "%s: cannot make %u memory windows: %s",
			  domain->device->name, lane->table.n, strerror(-r));
	return r;
}

void connection_deregister_memory(struct lane *lane)
{
	command_windows_close(&lane->table);
	slab_deregister(&lane->keys);
	mr_close(&lane->table.mr);
}

/* ---- growing ---- */

/* With each lane that is registered, or with none. */
static int register_next(struct volume_queue *queue)
{
	int r = 0;

	for (unsigned i = 0; i < VOLUME_PATHS_MAX && r == 0; i++) {
		struct lane *lane = queue->lanes[i];

		if (lane && lane->connection->state >= CONNECTION_ATTACHING)
			r = slab_register_next(&queue->slab, &lane->keys,
					       &lane->path->controller.domain, slab_access(lane));
	}
	return r;
}

static void deregister_next(struct volume_queue *queue)
{
	for (unsigned i = 0; i < VOLUME_PATHS_MAX; i++)
		if (queue->lanes[i])
			slab_deregister_next(&queue->slab, &queue->lanes[i]->keys);
}

static int grow(struct volume_queue *queue)
{
	size_t before = slab_backed_bytes(&queue->slab);
	char text[160], size[UNITS_MAX];
	int r;

	slab_populate_next(&queue->slab);
	r = register_next(queue);
	if (r == 0) {
		slab_grow(&queue->slab);
		return 0;
	}
	deregister_next(queue);
	slab_drop_next(&queue->slab);
	mr_explain(r, before, text, sizeof(text)); /* as much again */
	log_warn(VOLUME_FMT ": queue %u: %s more; it goes on with %s", VOLUME_ARG(queue->volume),
		 queue->qid, text, units_format_size(size, before));
	return r;
}

static void shrink(struct volume_queue *queue)
{
	slab_shrink(&queue->slab);
	deregister_next(queue);
	slab_drop_next(&queue->slab);
}

void connection_on_resize(struct loop_msg *msg)
{
	struct slab *slab = container_of(msg, struct slab, resize_msg);
	struct volume_queue *queue = container_of(slab, struct volume_queue, slab);

	slab->result = 0;
	if (slab->wants_more)
		slab->result = grow(queue);
	else
		shrink(queue);
	loop_send(queue->loop, &slab->resized_msg);
}
