/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Send work requests that are late, because chaos says so:
 *
 *   owed      executed, but the acknowledgement is on its way: the peer may have answered
 *             before the completion is there
 *   late      a READ or atomic whose response is on its way: what was posted after it and
 *             without a fence is executed before it (IBA table 76)
 *
 *      complete | owed, late, complete in any order | to be executed | free
 *               ^ owed                              ^ exec           ^ head
 *
 * Completions come in posting order, except on a device like siw: there a SEND's or
 * WRITE's does not wait for a READ before it. The slots of a queue are given back in
 * order all the same. Without chaos nothing is ever late: owed == exec.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct sr_qp;
struct sr_wqe;

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
