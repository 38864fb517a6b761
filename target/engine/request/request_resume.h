/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that wait for a buffer, a rate, a slot or a READ credit: what they wait for is here, and
 * they go on in the order of their line. The guard resumes those that it has parked
 * (request_turn.c). Poller thread.
 */
#pragma once

struct poller;
struct qp;

/* Control, when it makes the poller: sets what runs when a buffer comes back, and when a rate
 * permits more. */
void request_resume_init(struct poller *poller);
/* on_credit of the queue's queue pair: slots or READ credits came back. */
void request_on_credit(struct qp *qp);
