/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "qp.h"

/* Building send work requests; shared by post.c and wr_ex.c. Under sq_lock. */

bool wqe_may_post(const struct qp *qp);
/* The slot at the head of the ring, NULL = full. The caller advances the head. */
struct wqe *wqe_next(struct qp *qp);
/* Append inline payload. 0 or ENOMEM. */
int wqe_inline(const struct qp *qp, struct wqe *w, const void *data, size_t len);
