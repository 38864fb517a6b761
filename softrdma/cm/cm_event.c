/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work of the application's thread in rdma_get_cm_event, besides fetching an event (cm_queue.c).
 * As in librdmacm, some steps of a connection happen there: the active side's queue pair comes to
 * RTS, and a rejected one goes to ERR.
 */
#include "softrdma/cm/cm_conn.h"
#include "softrdma/cm/cm_device.h"
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_queue.h"
#include "softrdma/cm/sr_cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- delivery -------------------------------------------------------------- */

/* The queue pair receives from the group that its id has joined. */
static int attach(const struct sr_cm_event *e)
{
	struct ibv_qp *qp = e->id->ib.qp;
	int r = qp ? ibv_attach_mcast(qp, &e->ev.param.ud.ah_attr.grh.dgid, 0) : 0;

	return r ? sr_cm_fail(r) : 0;
}

/* librdmacm's last step of rdma_get_cm_event. 0, or -1 with errno. */
static int finish(struct sr_cm_event *e)
{
	switch (e->ev.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		sr_cm_close_unused_devices();
		/* a request that came in on a synchronous listener is synchronous too */
		return e->id->is_sync ? rdma_migrate_id(e->ev.id, NULL) : 0;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		sr_cm_finish_connect(e->id, e);
		return 0;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		return attach(e);
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		sr_cm_on_failed(e->id);
		return 0;
	default:
		return 0;
	}
}

SR_API int rdma_get_cm_event(struct rdma_event_channel *ib, struct rdma_cm_event **ret)
{
	struct sr_cm_event *e;

	if (!ret)
		return sr_cm_fail(EINVAL);
	e = sr_cm_event_fetch(ib);
	if (!e)
		return -1;
	if (finish(e)) {
		rdma_ack_cm_event(&e->ev);
		return -1;
	}
	*ret = &e->ev;
	return 0;
}
