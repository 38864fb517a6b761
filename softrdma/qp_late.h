/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "chaos.h"
#include "qp.h"

/* What chaos makes late; see qp_late.c. All under sq_lock. */

/* Completes the request at index later, or after those that are late before it. */
void qp_owe(struct qp *qp, uint64_t index, uint32_t byte_len);
/* Completes what is due at that time of the requests before `end`. */
void qp_settle(struct qp *qp, uint64_t end, uint64_t now);
/* Completes everything before `end`. Returns the first that fails, with its status, or
 * `end`. */
uint64_t qp_hasten(struct qp *qp, uint64_t end, enum ibv_wc_status *status);
/* The READ or atomic at exec: overtaken by what follows? True: *ret_go_on says whether
 * the queue does; false: it is to be executed now. */
bool qp_put_off(struct qp *qp, struct wqe *w, bool *ret_go_on);
/* Executes and completes what is due. False: the queue stands still. */
bool qp_run_late(struct qp *qp);
void qp_forget_late(struct qp *qp);

/* Parts of qp_run.c that these need. */
/* Moves the QP to ERR because the request at index has failed. */
void qp_fail(struct qp *qp, uint64_t index, enum ibv_wc_status status);
/* True: stand still. False: patience is over. */
bool qp_keep_waiting(struct qp *qp, enum qp_wait why);
enum ibv_wc_status qp_timed_out(enum qp_wait why);
void qp_resume_later(struct qp *qp, struct timer *t, uint64_t delay_ns);
/* Stand still for so long. */
void qp_hold(struct qp *qp, uint64_t ns);

/* The request at index has been executed with success. */
static inline void qp_succeed(struct qp *qp, uint64_t index, uint32_t byte_len)
{
	if (__builtin_expect(chaos_on() || qp->owed != index, 0)) {
		qp_owe(qp, index, byte_len);
		return;
	}
	qp->owed = index + 1;
	qp_complete(qp, qp_wqe(qp, index), index + 1, IBV_WC_SUCCESS, byte_len);
}
