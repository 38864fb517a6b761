/* SPDX-License-Identifier: BSD-3-Clause */
/* Producing completions on a queue in any process: whichever process executes a work request. */
#pragma once

#include "softrdma/fabric/peer.h"
#include <infiniband/verbs.h>

/*
 * Produces an entry on the CQ of any process: the caller fills the entry that begin returns, then
 * ends it. begin takes the CQ's lock, end gives it. NULL: overrun, without the lock; the owner's
 * helper has been notified and the entry is lost.
 */
struct seg_cqe *sr_completion_begin(struct sr_peer *owner, uint32_t slot);
void sr_completion_end(struct sr_peer *owner, uint32_t slot, const struct seg_cqe *e);

/* Fills an error entry: only wr_id, status, qp_num and vendor_err are defined. */
void sr_completion_error(struct seg_cqe *e, uint32_t qpn, uint64_t wr_id,
			 enum ibv_wc_status status);

/* Whether there is an entry, not yet polled, for this receive: kind, slot and seq as in the entry.
 * For repairs. */
bool sr_completion_has_recv(struct seg *s, uint32_t cq_slot, enum seg_cqe_kind kind, uint32_t slot,
			    uint64_t seq);
