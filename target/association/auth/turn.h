/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns at the worker threads that compute proofs. Hosts need not prove anything to make us compute, so
 * all queues that come from one address have PROOFS_PER_ADDRESS worker threads at once; the others of the
 * address wait, in order. Control decides, the poller asks and gives back (struct proof of the queue):
 *
 *   poller: turn_ask -> control: now, or in line -> poller: on_turn, compute, turn_end -> control: the next
 */
#pragma once

struct queue;

/* Poller of the queue, which has a guest (auth_attach) and no turn: on_turn is called there, once, when
 * the turn comes; at once when the queue dies, which is then to compute nothing. Ends with turn_end. */
void turn_ask(struct queue *queue, void (*on_turn)(struct queue *queue));
/* Poller of the queue: what on_turn began is over. */
void turn_end(struct queue *queue);
/* Control thread, the queue dies: it waits in line no more. */
void turn_cancel(struct queue *queue);
