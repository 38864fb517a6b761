/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files that run a send queue share: qp_run.c (executes it), qp_wait.c (a queue that
 * stands still) and qp_late.c (requests that chaos delays). All functions are called under the
 * queue pair's sq_lock, on application threads and on the helper. None waits: a queue that stands
 * still starts a timer.
 */
#pragma once

#include "softrdma/chaos/chaos.h"
#include "softrdma/process/api.h"
#include "softrdma/verbs/sr_qp.h"

/* Completes the request at index later, or after those that are late before it. */
void sr_qp_owe(struct sr_qp *qp, uint64_t index, uint32_t byte_len);
/* Completes the requests before `end` whose time has come. */
void sr_qp_settle(struct sr_qp *qp, uint64_t end, uint64_t now);
/* Completes everything before `end`. Returns the first request that fails, with its status, or
 * `end`. */
uint64_t sr_qp_hasten(struct sr_qp *qp, uint64_t end, enum ibv_wc_status *status);
/* Whether later requests overtake the READ or atomic at exec. True: *ret_go_on is whether the
 * queue continues; false: the request is to be executed now. */
bool sr_qp_put_off(struct sr_qp *qp, struct sr_wqe *w, bool *ret_go_on);
/* Executes and completes the late requests whose time has come. False: the queue stands still. */
bool sr_qp_run_late(struct sr_qp *qp, uint64_t *ret_failed, enum ibv_wc_status *ret_status);
void sr_qp_forget_late(struct sr_qp *qp);

/* Moves the QP to ERR because the request at index has failed. */
void sr_qp_fail(struct sr_qp *qp, uint64_t index, enum ibv_wc_status status);
/* True: the queue stands still. False: the time for waiting is over. */
bool sr_qp_keep_waiting(struct sr_qp *qp, enum sr_qp_wait why);
enum ibv_wc_status sr_qp_timed_out(enum sr_qp_wait why);
void sr_qp_resume_later(struct sr_qp *qp, struct sr_timer *t, uint64_t delay_ns);
void sr_qp_stop_waiting(struct sr_qp *qp);
/* How long a receiver that is not ready makes the sender wait; 0: not connected. */
uint64_t sr_qp_rnr_ns(const struct sr_qp *qp);
/* The queue stands still for so long. */
void sr_qp_hold(struct sr_qp *qp, uint64_t ns);

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
