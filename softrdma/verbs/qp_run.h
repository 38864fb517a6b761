/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files that run a send queue: qp_run.c (executes it), qp_wait.c (a queue that
 * stands still) and qp_late.c (requests that chaos delays). All functions are called under the
 * queue pair's sq_lock, on application threads and on the helper. None waits: a queue that stands
 * still starts a timer.
 */
#pragma once

#include "softrdma/chaos/chaos.h"
#include "softrdma/process/api.h"
#include "softrdma/verbs/qp_complete.h"
#include "softrdma/verbs/qp_impl.h"
#include "softrdma/verbs/qp_late.h"

/* Moves the QP to ERR because the request at index has failed. */
void sr_qp_fail(struct sr_qp *qp, uint64_t index, enum ibv_wc_status status);

/* Whether the operation takes a receive of the other end. */
static inline bool sr_qp_takes_receive(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* The request at index has been executed with success. */
static inline void sr_qp_succeed(struct sr_qp *qp, uint64_t index, uint32_t byte_len)
{
	if (UNLIKELY(chaos_on() || qp->owed != index)) {
		sr_qp_owe(qp, index, byte_len);
		return;
	}
	qp->owed = index + 1;
	sr_qp_complete(qp, sr_qp_wqe(qp, index), index + 1, IBV_WC_SUCCESS, byte_len);
}

/* Called with sq_lock held. */
void sr_qp_run(struct sr_qp *qp);   /* execute what can be executed */
void sr_qp_error(struct sr_qp *qp); /* -> ERR: flush both queues */
