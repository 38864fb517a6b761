/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of control to a queue; queue.h has the drawing. Control thread. */
#pragma once

struct queue;

void queue_init(struct queue *queue); /* in queue_create */
/* From here on the poller owns the queue. */
void queue_attach(struct queue *queue);
/* Commands in flight end, then the queue fails without a fault. why is a constant. */
void queue_finish(struct queue *queue, const char *why);
/* Moves it to QUEUE_PARTING, unless it has failed. */
void queue_part(struct queue *queue);
/* The queue starts nothing more. It is over when its commands and work requests are back. */
void queue_drain(struct queue *queue);
/* A defect keeps it from ending: see request_abandon_lost. `abandoned` answers, and is awaited. */
void queue_abandon(struct queue *queue);
