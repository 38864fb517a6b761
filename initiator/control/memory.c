/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of front ends; see memory.h.
 *
 * An I/O thread reads the keys of a piece without the lock. The piece was added before its I/O was
 * submitted, by that thread or one that it is ordered with; and control writes the keys for a path
 * only while each lane of that path is detached, which loop messages order.
 */
#include "initiator/control/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/error.h"

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

static void close_all(struct volume_memories *memories, unsigned path)
{
	list_for_each (node, &memories->all)
		mr_close(&list_entry(node, struct volume_memory, node)->mrs[path]);
	memories->domains[path] = NULL;
}

static int open_mr(struct volume_memories *memories, struct volume_memory *memory, unsigned path,
		   struct error *error)
{
	char text[160];
	const char *hint;
	int r = mr_open(memories->domains[path], memory->base, memory->n_bytes, memories->access,
			&memory->mrs[path]);

	if (r == 0)
		return 0;
	hint = mr_explain(r, memories->n_bytes, text, sizeof(text));
	error_set(error, EXIT_PRIVILEGE, hint, "%s", text);
	return r;
}

int memories_register(struct volume_memories *memories, unsigned path, const struct domain *domain,
		      struct error *error)
{
	int r = 0;

	pthread_mutex_lock(&memories->lock);
	memories->domains[path] = domain;
	for (struct list *node = memories->all.next; node != &memories->all && r == 0;
	     node = node->next)
		r = open_mr(memories, list_entry(node, struct volume_memory, node), path, error);
	if (r < 0)
		close_all(memories, path);
	pthread_mutex_unlock(&memories->lock);
	return r;
}

void memories_deregister(struct volume_memories *memories, unsigned path)
{
	pthread_mutex_lock(&memories->lock);
	close_all(memories, path);
	pthread_mutex_unlock(&memories->lock);
}

/* While no path is connected, no device looks: and one piece that is not mapped would keep every
 * path from being connected again. Linux before 5.14 cannot say it. */
static int look_at_pages(const struct volume_memory *memory, struct error *error)
{
	uintptr_t page_mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
	uintptr_t first = (uintptr_t)memory->base & ~page_mask;
	uintptr_t end = ((uintptr_t)memory->base + memory->n_bytes + page_mask) & ~page_mask;

	if (madvise((void *)first, end - first, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
		return 0;
	error_set(error, EXIT_PRIVILEGE, "", "cannot register memory that is not mapped");
	return -EFAULT;
}

static void close_mrs(struct volume_memory *memory)
{
	for (unsigned path = 0; path < VOLUME_PATHS_MAX; path++)
		mr_close(&memory->mrs[path]);
}

static int open_mrs(struct volume_memories *memories, struct volume_memory *memory,
		    struct error *error)
{
	unsigned n_domains = 0;
	int r = 0;

	for (unsigned path = 0; path < VOLUME_PATHS_MAX && r == 0; path++)
		if (memories->domains[path]) {
			n_domains++;
			r = open_mr(memories, memory, path, error);
		}
	if (r == 0 && !n_domains)
		r = look_at_pages(memory, error);
	if (r < 0)
		close_mrs(memory);
	return r;
}

int memories_add(struct volume_memories *memories, struct volume_memory *memory,
		 struct error *error)
{
	int r;

	memset(memory->mrs, 0, sizeof(memory->mrs));
	pthread_mutex_lock(&memories->lock);
	memories->n_bytes += memory->n_bytes;
	r = open_mrs(memories, memory, error);
	if (r == 0)
		list_add_tail(&memories->all, &memory->node);
	else
		memories->n_bytes -= memory->n_bytes;
	pthread_mutex_unlock(&memories->lock);
	return r;
}

void memories_remove(struct volume_memories *memories, struct volume_memory *memory)
{
	pthread_mutex_lock(&memories->lock);
	close_mrs(memory);
	list_remove(&memory->node);
	memories->n_bytes -= memory->n_bytes;
	pthread_mutex_unlock(&memories->lock);
}
