/* SPDX-License-Identifier: BSD-3-Clause */
/* A volume's queue: what control sends to it, and its making. See queue.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/check.h"
#include "initiator/io/choose.h"
#include "initiator/io/io.h"
#include "initiator/io/io_fencing.h"
#include "initiator/io/io_place.h"
#include "initiator/io/queue.h"

static void on_slab_quitted(struct slab *slab)
{
	struct volume_queue *queue = container_of(slab, struct volume_queue, slab);

	loop_send(queue->control, &queue->quitted_msg);
}

static void on_quit(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, quit_msg);

	check(list_is_empty(&queue->held) && list_is_empty(&queue->waiting) &&
	      list_is_empty(&queue->finished) && !queue->fencing.n && !queue->choice.n);
	loop_timer_stop(&queue->retry_timer);
	loop_call_cancel(&queue->finish_call);
	slab_quit(&queue->slab, on_slab_quitted);
}

/* ---- mode ---- */

static void on_mode(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, mode_msg);

	atomic_store(&queue->is_mode_sent, false); /* before the look: a later change sends again */
	queue->mode = (enum queue_mode)atomic_load(&queue->wanted_mode);
	choose_rank(queue);
	if (queue->mode == QUEUE_FAIL && queue->lane->state != LANE_LIVE)
		io_fail_held(queue); /* what is in flight follows when its lane is drained */
	else if (queue->mode == QUEUE_HOLD)
		io_retry_now(queue);
}

void queue_set_mode(struct volume_queue *queue, enum queue_mode mode)
{
	if (queue->is_removing)
		return; /* the I/O loop may have let go of it */
	atomic_store(&queue->wanted_mode, mode);
	if (!atomic_exchange(&queue->is_mode_sent, true))
		loop_send(queue->loop, &queue->mode_msg);
}

void queue_retry(struct volume_queue *queue)
{
	queue_set_mode(queue, (enum queue_mode)atomic_load(&queue->wanted_mode));
}

static void on_proof(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, fencing.msg);

	atomic_store(&queue->fencing.is_sent, false); /* before the look, as in on_mode */
	io_fencing_look(queue);
}

void queue_look_at_proof(struct volume_queue *queue)
{
	if (!queue->is_removing && !atomic_exchange(&queue->fencing.is_sent, true))
		loop_send(queue->loop, &queue->fencing.msg);
}

/* ---- making ---- */

int queue_new(const struct queue_config *config, struct volume_queue **ret_queue)
{
	struct volume_queue *queue = calloc(1, sizeof(*queue));
	int r;

	if (!queue)
		return -ENOMEM;
	queue->volume = config->volume;
	queue->loop = config->loop;
	queue->control = config->control;
	queue->unflushed = config->unflushed;
	queue->fencing.unproven = config->unproven;
	queue->fencing.is_closed = atomic_load(&config->unproven->is_closed);
	queue->io_errors = config->io_errors;
	queue->capture = config->capture;
	queue->qid = config->qid;
	queue->retry_for_ns = config->retry_for_ns;
	queue->block_shift = config->block_shift;
	queue->quit_msg.run = on_quit;
	queue->mode_msg.run = on_mode;
	queue->fencing.msg.run = on_proof;
	queue->quitted_msg.run = config->on_quitted;
	choose_init(queue, config->policy);
	queue->finish_call.run = io_on_finish;
	queue->retry_timer.on_expiry = io_on_retry;
	list_init(&queue->node);
	list_init(&queue->held);
	list_init(&queue->waiting);
	list_init(&queue->finished);
	list_init(&queue->fencing.list);
	r = slab_init(&queue->slab, &(struct slab_config){
					    .control = config->control,
					    .loop = config->loop,
					    .n_bytes = config->slab_bytes,
					    .max_block = 1ull << log2_ceil(config->max_io_bytes),
					    .is_whole = config->is_slab_whole,
					    .on_resize = config->on_resize,
				    });
	if (r < 0) {
		queue_free(queue);
		return r;
	}
	*ret_queue = queue;
	return 0;
}

void queue_free(struct volume_queue *queue)
{
	slab_deinit(&queue->slab);
	free(queue);
}

void *volume_buffer_take(struct volume_queue *queue, size_t n_bytes)
{
	return slab_take(&queue->slab, n_bytes);
}

void volume_buffer_give(struct volume_queue *queue, void *buffer)
{
	slab_give(&queue->slab, buffer);
}

void volume_buffer_wait(struct volume_queue *queue, struct loop_call *waiter)
{
	slab_wait(&queue->slab, waiter);
}

void volume_buffer_wait_cancel(struct volume_queue *queue, struct loop_call *waiter)
{
	slab_wait_cancel(&queue->slab, waiter);
}
