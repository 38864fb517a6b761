/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the caller: registered by it, for one I/O, or by the cache. Any thread. */
#include <errno.h>
#include <stdlib.h>

#include "library/cache.h"
#include "library/memory_handle.h"
#include "library/message.h"
#include "library/process.h"

enum {
	ENDED_MAX = 64,
};

/* A handle from the oldest of those that have ended, once there are many of these. */
static struct rblk_memory *new_memory(struct rblk_volume *volume)
{
	struct list *node = NULL;

	pthread_mutex_lock(&volume->lock);
	if (volume->n_ended_memories >= ENDED_MAX) {
		node = list_take_first(&volume->ended_memories);
		volume->n_ended_memories--;
	}
	pthread_mutex_unlock(&volume->lock);
	return node ? list_entry(node, struct rblk_memory, node)
		    : calloc(1, sizeof(struct rblk_memory));
}

int rblk_memory_register(struct rblk_volume *volume, void *base, size_t length,
			 struct rblk_memory **ret_memory, struct rblk_error *ret_error)
{
	struct rblk_memory *memory = NULL;
	struct error error;
	int r;

	*ret_memory = NULL;
	if (process_is_child())
		r = error_refuse(&error, -ECHILD, "the volume belongs to the parent process");
	else if (!base || !length)
		r = error_refuse(&error, -EINVAL, "no memory is given");
	else if (memory_wraps(base, length))
		r = error_refuse(&error, -EINVAL, "the memory ends beyond the address space");
	else if (!(memory = new_memory(volume)))
		r = error_refuse(&error, -ENOMEM, "out of memory");
	else {
		memory->volume = volume;
		memory->memory = (struct volume_memory){.base = base, .n_bytes = length};
		r = volume_memory_add(volume->volume, &memory->memory, &error);
	}
	if (r < 0) {
		free(memory);
		return error_to_public(ret_error, r, &error);
	}
	pthread_mutex_lock(&volume->lock);
	list_add_tail(&volume->memories, &memory->node);
	pthread_mutex_unlock(&volume->lock);
	*ret_memory = memory;
	return 0;
}

int rblk_memory_unregister(struct rblk_memory *memory)
{
	struct rblk_volume *volume;

	if (!memory)
		return 0;
	if (process_is_child())
		return -ECHILD;
	volume = memory->volume;
	if (!volume)
		return -EINVAL;
	memory->volume = NULL;
	volume_memory_remove(volume->volume, &memory->memory);
	pthread_mutex_lock(&volume->lock);
	list_remove(&memory->node);
	list_add_tail(&volume->ended_memories, &memory->node);
	volume->n_ended_memories++;
	pthread_mutex_unlock(&volume->lock);
	return 0;
}

void memory_free_all(struct rblk_volume *volume)
{
	struct list *node;

	while ((node = volume->memories.next) != &volume->memories)
		rblk_memory_unregister(list_entry(node, struct rblk_memory, node));
	while ((node = list_take_first(&volume->ended_memories)))
		free(list_entry(node, struct rblk_memory, node));
}

int rblk_memory_forget(struct rblk_volume *volume, const void *base, size_t length)
{
	if (process_is_child())
		return -ECHILD;
	if (memory_wraps(base, length))
		return -EINVAL;
	return volume->cache ? cache_forget(volume->cache, base, length) : 0;
}

int memory_attach(struct rblk_volume *volume, void *buffer, size_t n_bytes, struct io_part *part)
{
	struct error error;
	int r;

	if (!buffer || memory_wraps(buffer, n_bytes))
		return -EINVAL;
	if (volume->cache) {
		r = cache_take(volume->cache, buffer, n_bytes, &part->held);
	} else {
		part->memory = (struct volume_memory){.base = buffer, .n_bytes = n_bytes};
		r = volume_memory_add(volume->volume, &part->memory, &error);
		part->held = r < 0 ? NULL : &part->memory;
	}
	part->io.memory = part->held;
	return r;
}

void memory_detach(struct rblk_volume *volume, struct io_part *part)
{
	if (part->held == &part->memory)
		volume_memory_remove(volume->volume, &part->memory);
	else
		cache_give(volume->cache, part->held);
	part->held = NULL;
}
