/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the caller: registered by it, for one I/O, or by the cache. Any thread. */
#include <errno.h>
#include <stdlib.h>

#include "library/handle.h"
#include "library/process.h"

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
	else if (!(memory = calloc(1, sizeof(*memory))))
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
	pthread_mutex_lock(&volume->lock);
	list_remove(&memory->node);
	pthread_mutex_unlock(&volume->lock);
	volume_memory_remove(volume->volume, &memory->memory);
	free(memory);
	return 0;
}

int rblk_memory_forget(struct rblk_volume *volume, const void *base, size_t length)
{
	if (process_is_child())
		return -ECHILD;
	return volume->cache ? cache_forget(volume->cache, base, length) : 0;
}

int memory_attach(struct rblk_volume *volume, void *buffer, size_t n_bytes, struct io_part *part)
{
	struct error error;
	int r;

	if (!n_bytes)
		return 0;
	if (!buffer)
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
