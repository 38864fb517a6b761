/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both ends of a completion: the entry that a send work request pushes, and what polling or
 * dropping an entry gives back to its queue pair.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

struct seg_cqe;
struct sr_qp;
struct sr_wqe;

/* Pushes a completion, if requested or an error; polling it gives back slots to `freed`. */
void sr_qp_complete(struct sr_qp *qp, const struct sr_wqe *w, uint64_t freed,
		    enum ibv_wc_status status, uint32_t byte_len);
/* Called by sr_cq_pop: the application has polled this completion. */
void sr_qp_on_polled(const struct seg_cqe *e);
void sr_qp_on_dropped(const struct seg_cqe *e);
