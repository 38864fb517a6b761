/* SPDX-License-Identifier: BSD-3-Clause */
/* What queue_state.c does for queue.c alone; queue.h declares the rest. Poller of the queue. */
#pragma once

#include "target/engine/queue.h"

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
