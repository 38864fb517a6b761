/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending the connection manager's packets. Sockets never block; all under sr_cm_lock. */
#include "softrdma/cm/sr_cm.h"

#include <string.h>

#include "softrdma/trace/trace.h"

int sr_cm_send_msg(struct sr_cm_id *id, struct sr_cm_msg *m)
{
	int fds[2];

	if (trace_on())
		sr_cm_trace(id, m);
	sr_engine()->introduce(&m->hello, fds);
	return sr_packet_send(id->sock, m, sizeof(*m),
			      m->type == CM_MSG_REQ || m->type == CM_MSG_REP ? fds : NULL);
}

int sr_cm_send(struct sr_cm_id *id, enum sr_cm_msg_type type)
{
	struct sr_cm_msg m = {.type = type};

	return sr_cm_send_msg(id, &m);
}

int sr_cm_reject(struct sr_cm_id *id, uint32_t reason, const void *data, uint8_t len)
{
	struct sr_cm_msg m = {.type = CM_MSG_REJ, .reason = reason, .data_len = len};

	if (len)
		memcpy(m.data, data, len);
	return sr_cm_send_msg(id, &m);
}

void sr_cm_say_goodbye(struct sr_cm_id *id)
{
	switch (id->state) {
	case CM_EMBRYO:
	case CM_REQ_RECEIVED:
	case CM_REP_RECEIVED:
		sr_cm_reject(id, CM_REJ_CONSUMER, NULL, 0);
		break;
	case CM_REP_SENT:
	case CM_ESTABLISHED:
		sr_cm_send(id, CM_MSG_DREQ);
		break;
	case CM_DREQ_RECEIVED:
		sr_cm_send(id, CM_MSG_DREP);
		break;
	default:
		break;
	}
	id->state = CM_CLOSED;
}
