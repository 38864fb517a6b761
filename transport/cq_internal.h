/* SPDX-License-Identifier: BSD-3-Clause */
/* What cq.c does for the files above it (qp_internal.h has their order). Thread: the owner loop. */
#pragma once

#include "transport/cq.h"

/* The table of attached queue pairs by number. 0 or -ENOMEM. */
int cq_attach(struct cq *cq, struct qp *qp);
void cq_detach(struct cq *cq, struct qp *qp);
/* NULL: none of this number is attached. */
struct qp *cq_find(const struct cq *cq, uint32_t number);
/* In cq_poll.c: takes all completions that are there now. */
void cq_poll_all(struct cq *cq);
