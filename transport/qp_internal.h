/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What qp_post.c does for qp.c and cq_poll.c. Each file calls only those below it:
 *
 *   qp         the life of a queue pair; control and the owner loop
 *   cq_poll    takes completions and hands each to qp_post or recv_ring
 *   qp_post    the works of a queue pair: posts them, hands them back in order
 *   recv_ring  receives       chain   chains of work requests
 *   cq         the completion queue: entries, attached queue pairs
 *
 * Thread: the owner loop.
 */
#pragma once

#include "transport/qp.h"

/* Takes the next step of its life; a step that its table forbids ends the process. Owner loop. */
void qp_move(struct qp *qp, enum qp_state next);
/* A work of the send queue completed. status: enum ibv_wc_status. */
void qp_complete(struct qp *qp, struct work *work, unsigned status);
/* Slots came back in this batch: notifies the owner, unless the queue pair is broken. */
void qp_credit(struct qp *qp);
/* Breaks the queue pair: a work request or a receive failed, and c is the first cause. */
void qp_break(struct qp *qp, const struct completion *c);
/* Ends the draining of a queue pair if everything has come back; otherwise waits for more. */
void qp_check_drained(struct qp *qp);
/* The requests of the chain become unposted works. */
void qp_drop_chain(struct qp *qp);
/* Posts the last work request, the marker. */
void qp_post_marker(struct qp *qp);
/* Runs from qp->unposted_call: flushes the unposted works once the device has completed all
 * others. */
void qp_complete_unposted(struct loop_call *call);
