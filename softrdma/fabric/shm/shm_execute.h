/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same-host engine: the thread that posts a work request executes it on both sides. It
 * validates its own keys, takes the responder QP's lock in the responder's segment, checks what the
 * responder's adapter would check, copies (shm_copy.c), and pushes both completions, its own first:
 * the responder must not be able to answer before the requester's completion is there.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>

#include "softrdma/fabric/engine.h"

enum ibv_wc_status sr_shm_execute(struct sr_qp *qp, const struct sr_wqe *w, uint64_t index,
				  enum sr_qp_wait *ret_wait);
