/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a queue pair, as qp->state says it. qp_post.c has the table of its steps.
 * The owner loop writes the state and asks the questions below.
 */
#pragma once

#include <stdbool.h>

/*
 *     NEW ---> LIVE ---> BROKEN ---> DRAINING ---> DRAINED ---> DETACHED
 *               |          |           A                            A
 *               +----------|-- drain --+                            |
 *               +----------+-- detach, after a failed attach -------+
 *
 * In order of life: a comparison tells whether a step has been taken.
 */
enum qp_state {
	QP_NEW,
	QP_LIVE,     /* attached to its completion queue */
	QP_BROKEN,   /* a request failed: it posts nothing more */
	QP_DRAINING, /* in the error state; what is posted comes back */
	QP_DRAINED,  /* everything is back, or the device has let go of it */
	QP_DETACHED,
};

/* Whether the device may still use the posted requests and their memory. */
enum qp_hold {
	QP_HELD,      /* it may use them */
	QP_RELEASING, /* some do not come back: control destroys the queue pair */
	QP_RELEASED,  /* the queue pair is destroyed: it uses none */
};

/* Between qp_attach and qp_detach: the owner must drain and detach it. */
static inline bool qp_is_attached(enum qp_state state)
{
	return state >= QP_LIVE && state < QP_DETACHED;
}

/* It posts nothing more: a request failed, or it is ending. */
static inline bool qp_is_broken(enum qp_state state)
{
	return state >= QP_BROKEN;
}

/* qp_drain has run. */
static inline bool qp_is_draining(enum qp_state state)
{
	return state >= QP_DRAINING;
}

/* Everything is back, or the device has let go of it. */
static inline bool qp_has_drained(enum qp_state state)
{
	return state >= QP_DRAINED;
}
