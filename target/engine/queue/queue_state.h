/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of a queue, its failures, and queues on their way out; queue.h has the drawing.
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

#include "base/bits.h"
#include "target/engine/queue/queue.h"

struct host;

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

/* host: charged for the queue's buffers from now on; NULL: none. */
void queue_set_access(struct queue *queue, enum queue_access access, struct host *host);
/* The host broke a rule, or the queue pair broke: the first call ends the queue. */
__attribute__((format(printf, 2, 3))) void queue_fail(struct queue *queue, const char *fmt, ...);
/* An invariant broke: a defect of rblkd (association/defect.h). Control ends the queue. */
__attribute__((format(printf, 2, 3))) COLD void queue_break(struct queue *queue, const char *fmt,
							    ...);
/* Ends one use of the queue (n_busy). The queue may be gone afterwards. */
void queue_done_one(struct queue *queue);
