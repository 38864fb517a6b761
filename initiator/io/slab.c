/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data buffers of a queue, and the list of those that wait for one.
 *
 * The front end takes a buffer, fills it or has it filled by the target, and gives it
 * back; all of that on the queue's I/O loop. When none is free it leaves a loop_call, and
 * each buffer that comes back wakes the one that waited longest. One give wakes one
 * waiter, and when that one gives its buffer back it wakes the next: no waiter is left behind.
 *
 * Invariant: a buffer belongs to at most one I/O; an I/O keeps it over reconnects. So a
 * buffer is never in the hands of two queue pairs (reliability I2): commands go back to
 * their queue only when the old queue pair is drained, and its keys are deregistered with
 * it.
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/check.h"
#include "initiator/io/queue.h"
#include "initiator/io/slab.h"

void *slab_map(size_t n_bytes)
{
	void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, n_bytes, MADV_DONTFORK);
	return p;
}

void slab_unmap(void *memory, size_t n_bytes)
{
	if (memory)
		munmap(memory, n_bytes);
}

int slab_init(struct slab *slab, size_t n_bytes, size_t max_block)
{
	check(n_bytes && n_bytes % SLAB_UNIT == 0);
	*slab = (struct slab){.n_bytes = n_bytes};
	list_init(&slab->waiters);
	slab->memory = slab_map(n_bytes);
	if (!slab->memory)
		return -ENOMEM;
	return buddy_init(&slab->buddy, n_bytes, SLAB_UNIT, max_block);
}

void slab_deinit(struct slab *slab)
{
	check(!slab->n_taken);
	buddy_deinit(&slab->buddy);
	slab_unmap(slab->memory, slab->n_bytes);
	*slab = (struct slab){0};
}

void *volume_buffer_take(struct volume_queue *queue, size_t n_bytes)
{
	struct slab *slab = &queue->slab;
	size_t offset;
	int r = buddy_take(&slab->buddy, n_bytes, &offset);

	check(r != -EMSGSIZE); /* no give could ever satisfy it */
	if (r < 0)
		return NULL;
	slab->n_taken++;
	return slab->memory + offset;
}

static void wake_one(struct volume_queue *queue)
{
	struct list *node = list_take_first(&queue->slab.waiters);

	if (node)
		loop_defer(queue->loop, list_entry(node, struct loop_call, node));
}

void volume_buffer_give(struct volume_queue *queue, void *buffer)
{
	struct slab *slab = &queue->slab;
	size_t offset = (size_t)((uint8_t *)buffer - slab->memory);

	check(slab->n_taken && offset < slab->n_bytes);
	slab->n_taken--;
	buddy_give(&slab->buddy, offset);
	wake_one(queue);
}

void volume_buffer_wait(struct volume_queue *queue, struct loop_call *waiter)
{
	check(!waiter->is_queued);
	if (waiter->node.next)
		list_remove(&waiter->node); /* already waiting: to the end */
	list_add_tail(&queue->slab.waiters, &waiter->node);
}

void volume_buffer_wait_cancel(struct volume_queue *queue, struct loop_call *waiter)
{
	if (waiter->is_queued) {
		loop_call_cancel(waiter);
		wake_one(queue); /* the buffer it was woken for goes to the next waiter */
	} else if (waiter->node.next) {
		list_remove(&waiter->node);
	}
}
