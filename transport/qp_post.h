/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The works of a queue pair: posts them and hands them back; see qp.h for the contract. qp.c has
 * the life of the queue pair. Thread: the owner loop.
 */
#pragma once

#include <stdint.h>

#include "transport/device.h"
#include "transport/qp_state.h"

enum {
	QP_SIGNALED = 1 << 0,	/* done at the end of the chain, not with a later completion */
	QP_INLINE = 1 << 1,	/* copied by qp_flush at the latest; at most qp->max_inline */
	QP_INVALIDATE = 1 << 2, /* SEND only: with remote invalidate of rkey */
};

struct completion;
struct qp;
struct sge;
struct window;
struct work;

/*
 * Owner loop. Each takes one slot (the caller has checked qp_n_free), and the work and the memory
 * until done. On a broken queue pair it completes with a flush error in the loop's next turn, never
 * from inside.
 */
void qp_send(struct qp *qp, struct work *work, const struct sge *sges, unsigned n_sges,
	     unsigned flags, uint32_t invalidate_rkey);
/* A WRITE ahead of the SEND that is queued next. It takes a slot, but no work. Its memory is free
 * when the work of that SEND is done. */
void qp_write(struct qp *qp, struct sge sge, uint64_t remote_addr, uint32_t rkey);
/* Binds an unbound window to a piece of mr (MR_WINDOWS), ahead of the next SEND, as qp_write.
 * access: MR_REMOTE_READ or MR_REMOTE_WRITE. Returns the key. */
uint32_t qp_bind(struct qp *qp, struct window *window, const struct mr *mr, void *addr,
		 uint32_t length, enum mr_access access);
/* Invalidates the window's key: the peer cannot use it after the work is done. */
void qp_invalidate(struct qp *qp, struct work *work, const struct window *window);
/* Takes a READ credit, too (qp_has_read_credit). Always signaled. */
void qp_read(struct qp *qp, struct work *work, struct sge sge, uint64_t remote_addr, uint32_t rkey);
/* At most once, to a peer that lets this side WRITE. Has the device complete all that was queued
 * before: on_credit is called when the last of it has left and was acknowledged. */
void qp_settle(struct qp *qp);
/* Posts the chain now, before the end of the turn. */
void qp_flush(struct qp *qp);

/* Takes the next step of its life; a step that its table forbids ends the process. Owner loop. */
void qp_move(struct qp *qp, enum qp_state next);
/* A work of the send queue completed. status: enum ibv_wc_status. */
void qp_complete(struct qp *qp, struct work *work, unsigned status);
/* Slots came back in this batch: notifies the owner, unless the queue pair is broken. */
void qp_credit(struct qp *qp);
/* Breaks the queue pair: a work request or a receive failed, and c is the first cause. */
void qp_break(struct qp *qp, const struct completion *c);
/* Ends the draining of a queue pair if everything has come back; otherwise waits for more. */
void qp_check_drained(struct qp *qp);
/* The requests of the chain become unposted works. */
void qp_drop_chain(struct qp *qp);
/* Posts the last work request, the marker. */
void qp_post_marker(struct qp *qp);
/* Runs from qp->unposted_call: flushes the unposted works once the device has completed all
 * others. */
void qp_complete_unposted(struct loop_call *call);
