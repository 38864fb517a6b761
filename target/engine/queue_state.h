/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What queue_state.c does for queue.c alone, and queues on their way out; queue.h has the rest.
 * Poller of the queue.
 *
 * While its host leaves for another rblkd, a queue stays connected without the stores:
 *
 *     control                                   poller
 *     part   ------------------------------->   SERVING ---> PARTING    its commands end
 *            <-------------------------- parted              PARTED     until `drain`
 *
 * From `part` on an admin queue serves only what ends an association and needs no store:
 * properties. An I/O queue drops what arrives.
 */
#pragma once

#include "target/engine/queue.h"

/* Between `part` and the end. */
static inline bool queue_is_parting(const struct queue *queue)
{
	return queue->state == QUEUE_PARTING || queue->state == QUEUE_PARTED;
}
/* Moves the queue to the next state, which its table must allow. */
void queue_move(struct queue *queue, enum queue_state next);
/* Its queue pair is attached: it is one of its poller's queues until it is over. */
void queue_join_poller(struct queue *queue);
/* Whether control does not know of a failure yet. */
bool queue_may_fail(const struct queue *queue);
/* The queue has failed, because of queue->failed.why. is_fault: the host's. */
void queue_send_failed(struct queue *queue, bool is_fault);
/* For a FINISHING queue: ends it when its last command has ended. */
void queue_check_finished(struct queue *queue);
/* The same for QUEUE_PARTING: sends `parted`. */
void queue_check_parted(struct queue *queue);
