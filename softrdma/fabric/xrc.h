/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended reliable connections (IBA volume 1, annex A14): the responder's half. A message names
 * the shared receive queue for which it is, by the number in its XRCETH. A queue pair of type
 * XRC_RECV has neither receives nor a protection domain of its own: it takes both from that queue,
 * which is in the same XRC domain and belongs to the same process.
 *
 * So for the length of a message the shared half of the queue pair names that queue, its domain and
 * its completion queue, and rq.h delivers as for any queue pair with an SRQ.
 */
#pragma once

#include "softrdma/fabric/seg.h"

/* The XRC SRQ with that number in the domain of q, or NULL. Any number. Any thread of any process;
 * q and the result are of s. */
const struct seg_srq *sr_xrc_find(const struct seg *s, const struct seg_qp *q, uint32_t number);
/* The message names this SRQ, whose domain its keys must have. False: there is none with that
 * number, and nothing changes. The caller holds q's lock. */
bool sr_xrc_aim(struct seg *s, struct seg_qp *q, uint32_t number);
/* The same of a message that takes a receive. Also false where q still has one of another SRQ. */
bool sr_xrc_aim_receive(struct seg *s, struct seg_qp *q, uint32_t number);
