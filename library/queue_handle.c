/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a queue. The caller's thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library/handle.h"
#include "library/keeper.h"
#include "library/message.h"
#include "library/process.h"

/* ---- open ---- */

struct opening {
	struct rblk_queue *queue;
	int r;
};

static void add(void *arg)
{
	struct opening *opening = arg;
	struct rblk_queue *queue = opening->queue;
	struct rblk_volume *volume = queue->volume;

	opening->r = volume_queue_add(volume->volume, &queue->loop, &queue->queue);
	if (opening->r < 0)
		return;
	list_add_tail(&volume->queues, &queue->node);
	keeper_start(volume);
}

static void on_removed_msg(struct loop_msg *msg)
{
	container_of(msg, struct rblk_queue, removed_msg)->is_removed = true;
}

static int open_queue(struct rblk_queue *queue, struct error *error)
{
	struct opening opening = {.queue = queue};
	int r = loop_init(&queue->loop, queue->volume->spin_ns, NULL);

	if (r == 0) {
		process_call(add, &opening);
		r = opening.r;
	}
	if (r == -EUSERS)
		error_set(error, EXIT_FAILED, "close one, or take more with the option queues",
			  "the target grants %u queues, and they are open",
			  queue->volume->info.n_queues_granted);
	else if (r < 0)
		error_refuse(error, r, "cannot open a queue: %s", strerror(-r));
	if (r < 0)
		loop_deinit(&queue->loop);
	return r;
}

static void count(struct rblk_volume *volume, int by)
{
	pthread_mutex_lock(&volume->lock);
	volume->n_queues += (unsigned)by;
	pthread_mutex_unlock(&volume->lock);
}

int rblk_queue_open(struct rblk_volume *volume, struct rblk_queue **ret_queue,
		    struct rblk_error *ret_error)
{
	struct rblk_queue *queue;
	struct error error;
	int r;

	*ret_queue = NULL;
	if (process_is_child()) {
		error_refuse(&error, -ECHILD, "the volume belongs to the parent process");
		return error_to_public(ret_error, -ECHILD, &error);
	}
	queue = calloc(1, sizeof(*queue));
	if (!queue) {
		error_refuse(&error, -ENOMEM, "out of memory");
		return error_to_public(ret_error, -ENOMEM, &error);
	}
	queue->volume = volume;
	queue->ended_end = &queue->ended;
	queue->removed_msg.run = on_removed_msg;
	errand_init(&queue->errand);
	count(volume, 1);
	r = open_queue(queue, &error);
	if (r < 0) {
		count(volume, -1);
		free(queue);
		return error_to_public(ret_error, r, &error);
	}
	*ret_queue = queue;
	return 0;
}

/* ---- close ---- */

static void on_removed(void *context)
{
	struct rblk_queue *queue = context;

	loop_send(&queue->loop, &queue->removed_msg);
}

static void remove_queue(struct rblk_queue *queue)
{
	volume_queue_remove(queue->queue, on_removed, queue);
}

static void take_out(void *arg)
{
	struct rblk_queue *queue = arg;

	list_remove(&queue->node);
	if (!errand_delays(&queue->errand, remove_queue))
		remove_queue(queue);
}

static void do_nothing(void *arg)
{
}

static void close_fds(struct rblk_queue *queue)
{
	if (!queue->has_fd)
		return;
	loop_fd_remove(&queue->ready);
	loop_fd_remove(&queue->alarm);
	close(queue->ready.fd);
	close(queue->alarm.fd);
}

int rblk_queue_close(struct rblk_queue *queue)
{
	if (!queue)
		return 0;
	if (process_is_child())
		return -ECHILD;
	if (queue->n_outstanding)
		return -EBUSY;
	process_call(take_out, queue);
	queue_enter(queue); /* for good: the keeper has no list that names it */
	errand_cancel(queue);
	while (!queue->is_removed)
		loop_turn(&queue->loop, UINT64_MAX);
	process_call(do_nothing, NULL); /* control has left loop_send, which reads the loop last */
	close_fds(queue);
	loop_deinit(&queue->loop);
	count(queue->volume, -1);
	free(queue);
	return 0;
}
