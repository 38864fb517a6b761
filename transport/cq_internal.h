/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal to cq.c, qp.c and recv_ring.c. Thread: the owner loop. */
#pragma once

#include "transport/qp.h"

/* The table of attached queue pairs by number. 0 or -ENOMEM. */
int cq_attach(struct cq *cq, struct qp *qp);
void cq_detach(struct cq *cq, struct qp *qp);
/* Takes all completions that are there now. */
void cq_poll_all(struct cq *cq);
struct qp *cq_find(const struct cq *cq, uint32_t number);

/* A work of the send queue completed. status: enum ibv_wc_status. */
void qp_complete(struct qp *qp, struct work *work, unsigned status);
/* A receive completed. qp is NULL when the queue pair is not attached any more. */
void recv_complete(struct work *work, struct qp *qp, const struct completion *c);
/* Breaks the queue pair: a work request or a receive failed, and c is the first cause. */
void qp_break(struct qp *qp, const struct completion *c);
/* Ends the draining of a queue pair if everything has come back. */
void qp_check_drained(struct qp *qp);
void qp_credit(struct qp *qp);
void qp_drop_chain(struct qp *qp);
void recv_flush(struct recv_ring *ring);
