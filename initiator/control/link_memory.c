/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "initiator/control/link.h"
#include "initiator/control/link_memory.h"
#include "initiator/control/volume_impl.h"
#include "initiator/io/queue.h"

static enum mr_access slab_access(const struct volume_queue *queue)
{
	return queue->limits.has_windows ? MR_WINDOWS : MR_REMOTE_BOTH;
}

static int fail_memory(struct error *error, int r, size_t n_bytes)
{
	char text[160];
	const char *hint = mr_explain(r, n_bytes, text, sizeof(text));

	error_set(error, EXIT_PRIVILEGE, hint, "%s", text);
	return r;
}

int link_register_memory(struct volume_queue *queue, struct error *error)
{
	const struct domain *domain = &queue->volume->controller.domain;
	int r = slab_register(&queue->slab, domain, slab_access(queue));

	/* What lies beside the commands is for the target to read: Connect data, ranges. */
	if (r == 0)
		r = mr_open(domain, queue->table.memory, queue->table.memory_bytes, MR_REMOTE_READ,
			    &queue->table.mr);
	if (r < 0)
		return fail_memory(error, r,
				   slab_backed_bytes(&queue->slab) + queue->table.memory_bytes);
	if (queue->limits.has_windows)
		r = command_windows_open(&queue->table, domain);
	if (r < 0)
		error_set(error, EXIT_FAILED, NULL, "%s: cannot make %u memory windows: %s",
			  domain->device->name, queue->table.n, strerror(-r));
	return r;
}

void link_deregister_memory(struct volume_queue *queue)
{
	command_windows_close(&queue->table);
	slab_deregister(&queue->slab);
	mr_close(&queue->table.mr);
}

/* ---- growing ---- */

static int grow(struct volume_queue *queue)
{
	bool is_registered = queue->link->state >= LINK_ATTACHING;
	size_t before = slab_backed_bytes(&queue->slab);
	char text[160], size[UNITS_MAX];
	int r = slab_grow(&queue->slab, is_registered ? &queue->volume->controller.domain : NULL,
			  slab_access(queue));

	if (r < 0) {
		mr_explain(r, before, text, sizeof(text)); /* as much again */
		log_warn(VOLUME_FMT ": queue %u: %s more; it goes on with %s",
			 VOLUME_ARG(queue->volume), queue->limits.qid, text,
			 units_format_size(size, before));
	}
	return r;
}

void link_on_resize(struct loop_msg *msg)
{
	struct slab *slab = container_of(msg, struct slab, resize_msg);
	struct volume_queue *queue = container_of(slab, struct volume_queue, slab);

	slab->result = 0;
	if (slab->wants_more)
		slab->result = grow(queue);
	else
		slab_shrink(slab);
	loop_send(queue->loop, &slab->resized_msg);
}
