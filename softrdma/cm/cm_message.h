/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager's packets on a connection's socket, as between processes of one host.
 * Everything is called under sr_cm_lock.
 */
#pragma once

#include <netinet/in.h>
#include <stdint.h>

#include "softrdma/fabric/hello.h"

struct sr_cm_id;

enum {
	CM_REQ_DATA = 56,  /* private data sizes of RDMA_PS_TCP over InfiniBand's CM: */
	CM_REP_DATA = 196, /* events always carry the maximum, zero padded */
	CM_REJ_DATA = 148,
	CM_MAX_DATA = 196,
	CM_SIDR_REQ_DATA = 180, /* of RDMA_PS_UDP */
	CM_SIDR_REP_DATA = 136,
	CM_SIDR_NO_LISTENER = 1, /* statuses of a service id resolution, IBA table 118 */
	CM_SIDR_REJECTED = 2,
	CM_REJ_NO_LISTENER = 8, /* IBA table 99: invalid service id */
	CM_REJ_CONSUMER = 28,
	CM_REJ_UNREACHABLE = 5, /* "unsupported request": the two cannot copy to each other */
	CM_DEFAULT_BACKLOG = 1024,
};

enum sr_cm_msg_type {
	CM_MSG_REQ = 1,
	CM_MSG_REP,
	CM_MSG_RTU,
	CM_MSG_REJ,
	CM_MSG_DREQ,
	CM_MSG_DREP
};

/* One packet on the connection's socket. The descriptors of hello travel with REQ and REP. */
struct sr_cm_msg {
	uint32_t type; /* enum sr_cm_msg_type */
	uint32_t reason;
	uint32_t qpn;
	uint32_t psn;  /* from which the receiver of this message shall send */
	uint32_t qkey; /* of datagrams */
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count, srq;
	uint8_t data_len;
	uint8_t data[CM_MAX_DATA];
	struct sr_hello hello;
	struct sockaddr_in6 src, dst; /* REQ; large enough for both families */
};

/* Sends a message without data; a REJ. Never blocks. 0 or -errno. */
int sr_cm_send(struct sr_cm_id *id, enum sr_cm_msg_type type);
int sr_cm_reject(struct sr_cm_id *id, uint32_t reason, const void *data, uint8_t len);
/* Notifies the peer when the application destroys its id while the connection lives. */
void sr_cm_say_goodbye(struct sr_cm_id *id);
