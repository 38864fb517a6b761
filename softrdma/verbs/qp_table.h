/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pairs of this process by slot, and what concerns several of them. Any thread; the table
 * lock comes before all others of queue pairs.
 */
#pragma once

#include "softrdma/fabric/seg.h"

struct sr_qp;

/*
 * By slot. Entries are written under the table lock. A poller may look up its own QPs without it,
 * because a QP leaves the table only after its completions left the CQ.
 */
extern struct sr_qp *sr_qp_table[SEG_MAX_QP];
void sr_qp_table_lock(void);
void sr_qp_table_unlock(void);

/* Resumes the waiting send of the QP at the other end. */
void sr_qp_kick_waiter(uint32_t slot);
void sr_qp_kick_srq_waiters(uint32_t srq_slot);
void sr_qp_quiesce_all(void);
/* The half of it that waits for no other process: threads that execute work requests now. */
void sr_qp_quiesce_senders(void);
/* Calls fn for every queue pair that is complete, under the table lock. */
void sr_qp_for_each(void (*fn)(struct sr_qp *qp, uint64_t arg), uint64_t arg);
