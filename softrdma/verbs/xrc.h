/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC domains, the owner's side of the queue pairs and receive queues inside, and further handles
 * of a queue pair (ibv_open_qp(3)). fabric/xrc.h is the side of the senders.
 *
 * A file's descriptor names a domain, so that several processes have the same one. A queue pair of
 * a domain delivers to the SRQs of its own process.
 *
 * Application threads. The application owns domains and handles, and frees them through the verbs
 * calls, which return EBUSY while an object is inside. Public calls return NULL with errno, or an
 * errno value.
 */
#pragma once

#include "softrdma/verbs/qp_impl.h"

struct sr_xrcd {
	struct ibv_xrcd ib;
	uint32_t slot; /* of seg.domain */
	struct seg_domain name;
	_Atomic uint32_t users;
};

/* From the handle that the program has to our object around it. */
static inline struct sr_xrcd *sr_to_xrcd(struct ibv_xrcd *x)
{
	return container_of(x, struct sr_xrcd, ib);
}

/* The calls of struct verbs_context. */
struct ibv_xrcd *sr_xrcd_open(struct ibv_context *c, struct ibv_xrcd_init_attr *attr);
int sr_xrcd_close(struct ibv_xrcd *xrcd);
struct ibv_qp *sr_qp_open(struct ibv_context *c, struct ibv_qp_open_attr *attr);

/* The queue pair behind a handle: itself, or the one that the handle was opened for. */
static inline struct sr_qp *sr_qp_behind(struct ibv_qp *ib)
{
	struct sr_qp *qp = sr_to_qp(ib);

	return qp->behind ? qp->behind : qp;
}

/*
 * The program destroys a handle of an XRC_RECV queue pair. True: it was the last one, and the
 * caller destroys the queue pair; a handle of sr_qp_open is then gone.
 */
bool sr_xrc_drop_handle(struct ibv_qp *ib);
/* Raises an event of the queue pair for each handle of it. Under the table lock. */
void sr_xrc_raise(struct sr_qp *qp, enum ibv_event_type type);
/* The SRQ is being destroyed, no message finds it any more: no queue pair has a receive of it. */
void sr_xrc_forget_srq(uint32_t srq_slot);
/* The queue pair is reset or destroyed: its receive goes back to its SRQ. */
void sr_xrc_unclaim(struct sr_qp *qp);
