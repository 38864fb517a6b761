/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs, the owner's side: the private half with the send queue. The half that peers use is
 * struct seg_qp.
 *
 * Application threads post, modify and destroy; the helper resumes queues that have waited, and
 * flushes those that a peer moved to ERR. The application owns a queue pair and frees it through
 * ibv_destroy_qp(), which waits for every thread that uses it. Public calls return NULL with errno,
 * or an errno value; errors of execution are completions.
 */
#pragma once

#include "softrdma/verbs/qp_impl.h"

/* The attributes of ibv_create_qp as those of ibv_create_qp_ex. */
struct ibv_qp_init_attr_ex sr_qp_attr_ex(const struct ibv_qp_init_attr *init, struct ibv_pd *pd);
struct ibv_qp *sr_qp_create_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);

/* On reset or destruction: completions and the claim on an SRQ vanish. */
void sr_qp_drop_completions(struct sr_qp *qp);
