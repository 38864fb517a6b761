/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending the connection manager's messages, by the id's way. All under sr_cm_lock. */
#include "softrdma/cm/cm_message.h"
#include "softrdma/cm/sr_cm.h"

#include <string.h>

int sr_cm_send(struct sr_cm_id *id, enum sr_cm_msg_type type)
{
	struct sr_cm_msg m = {.type = type};

	return id->way->send(id, &m);
}

int sr_cm_reject(struct sr_cm_id *id, uint32_t reason, const void *data, uint8_t len)
{
	struct sr_cm_msg m = {.type = CM_MSG_REJ, .reason = reason, .data_len = len};

	if (len)
		memcpy(m.data, data, len);
	return id->way->send(id, &m);
}

void sr_cm_say_goodbye(struct sr_cm_id *id)
{
	id->way->leave(id);
	id->state = CM_CLOSED;
}
