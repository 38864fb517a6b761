/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A send queue that stands still, and for how long:
 *
 *   RNR     the receiver has no receive posted: until it posts one (its owner kicks this end) or
 *           min_rnr_timer x rnr_retry is over; 7 retries mean for ever
 *   RETRY   the other end does not answer (not RTR yet, gone, dead): until it comes to RTR or the
 *           transport's retries are over
 *   CHAOS   a fault that was asked for: until its time is over
 *
 * A waiting queue holds no lock and costs nothing; the helper resumes it.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/fabric/engine.h"

struct sr_timer;

/* True: the queue stands still. False: the time for waiting is over. */
bool sr_qp_keep_waiting(struct sr_qp *qp, enum sr_qp_wait why);
enum ibv_wc_status sr_qp_timed_out(enum sr_qp_wait why);
void sr_qp_resume_later(struct sr_qp *qp, struct sr_timer *t, uint64_t delay_ns);
void sr_qp_stop_waiting(struct sr_qp *qp);
/* How long a receiver that is not ready makes the sender wait; 0: not connected. */
uint64_t sr_qp_rnr_ns(const struct sr_qp *qp);
/* The queue stands still for so long. */
void sr_qp_hold(struct sr_qp *qp, uint64_t ns);
