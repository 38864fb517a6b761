/* SPDX-License-Identifier: BSD-3-Clause */
/* Between cq.c, qp.c and recv_ring.c; nobody else includes this. */
#pragma once

#include "transport/qp.h"

/* Owner loop. */
int cq_attach(struct cq *cq, struct qp *qp);
void cq_detach(struct cq *cq, struct qp *qp);
/* Takes every completion that is there now. */
void cq_poll_all(struct cq *cq);
struct qp *cq_find(const struct cq *cq, uint32_t number);

/* A completion of a send-queue work. status: enum ibv_wc_status. */
void qp_complete(struct qp *qp, struct work *work, unsigned status);
/* A completion of a receive; qp is NULL when it is not attached any more. */
void recv_complete(struct work *work, struct qp *qp, const struct completion *c);
/* A receive of the queue pair failed otherwise than by a flush. */
void qp_break(struct qp *qp, const struct completion *c);
/* Looks whether a draining queue pair has everything back. */
void qp_check_drained(struct qp *qp);
void qp_credit(struct qp *qp);
void qp_drop_chain(struct qp *qp);
void recv_flush(struct recv_ring *ring);
