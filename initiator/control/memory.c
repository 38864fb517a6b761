/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of front ends; see memory.h.
 *
 * An I/O thread reads the keys of a piece without the lock. The piece was added before its I/O was
 * submitted, by that thread or one that it is ordered with; and control writes the keys only while
 * each queue of the volume is detached, which loop messages order.
 */
#include "initiator/control/memory.h"

#include <errno.h>

#include "base/check.h"
#include "base/error.h"
#include "initiator/control/volume.h"
#include "initiator/control/volume_impl.h"

void memories_init(struct volume_memories *memories, bool has_windows)
{
	*memories = (struct volume_memories){
		.access = has_windows ? MR_WINDOWS : MR_REMOTE_BOTH,
	};
	pthread_mutex_init(&memories->lock, NULL);
	list_init(&memories->all);
}

void memories_deinit(struct volume_memories *memories)
{
	check(list_is_empty(&memories->all));
	pthread_mutex_destroy(&memories->lock);
}

static void close_all(struct volume_memories *memories)
{
	list_for_each (node, &memories->all)
		mr_close(&list_entry(node, struct volume_memory, node)->mr);
	memories->domain = NULL;
}

static int open_mr(struct volume_memories *memories, struct volume_memory *memory,
		   struct error *error)
{
	char text[160];
	const char *hint;
	int r = mr_open(memories->domain, memory->base, memory->n_bytes, memories->access,
			&memory->mr);

	if (r == 0)
		return 0;
	hint = mr_explain(r, memories->n_bytes, text, sizeof(text));
	error_set(error, EXIT_PRIVILEGE, hint, "%s", text);
	return r;
}

int memories_register(struct volume_memories *memories, const struct domain *domain,
		      struct error *error)
{
	int r = 0;

	pthread_mutex_lock(&memories->lock);
	memories->domain = domain;
	for (struct list *node = memories->all.next; node != &memories->all && r == 0;
	     node = node->next)
		r = open_mr(memories, list_entry(node, struct volume_memory, node), error);
	if (r < 0)
		close_all(memories);
	pthread_mutex_unlock(&memories->lock);
	return r;
}

void memories_deregister(struct volume_memories *memories)
{
	pthread_mutex_lock(&memories->lock);
	close_all(memories);
	pthread_mutex_unlock(&memories->lock);
}

int volume_memory_add(struct volume *volume, struct volume_memory *memory, struct error *error)
{
	struct volume_memories *memories = &volume->memories;
	int r = 0;

	memory->mr = (struct mr){0};
	pthread_mutex_lock(&memories->lock);
	memories->n_bytes += memory->n_bytes;
	if (memories->domain)
		r = open_mr(memories, memory, error);
	if (r == 0)
		list_add_tail(&memories->all, &memory->node);
	else
		memories->n_bytes -= memory->n_bytes;
	pthread_mutex_unlock(&memories->lock);
	return r;
}

void volume_memory_remove(struct volume *volume, struct volume_memory *memory)
{
	struct volume_memories *memories = &volume->memories;

	pthread_mutex_lock(&memories->lock);
	mr_close(&memory->mr);
	list_remove(&memory->node);
	memories->n_bytes -= memory->n_bytes;
	pthread_mutex_unlock(&memories->lock);
}
