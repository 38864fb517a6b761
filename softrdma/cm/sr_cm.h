/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager: librdmacm's objects behind its public structures.
 *
 * Application threads call in, and the helper thread runs the sockets of connections. One mutex,
 * sr_cm_lock, guards the objects. No thread waits or modifies a queue pair while it holds the lock:
 * functions that do so are called without it and take it themselves, the others run under it.
 * An id, a channel and an event are the application's, which frees them through librdmacm's calls;
 * the helper finds an id by its serial number only. Public calls return 0, or -1 with errno;
 * functions of this folder 0 or -errno.
 */
#pragma once

#include <rdma/rdma_cma.h>

#include "softrdma/cm/cm_way.h"
#include "softrdma/verbs/context.h"
#include "softrdma/fabric/node.h"
#include "softrdma/process/helper.h"
#include "softrdma/process/timer.h"
#include "softrdma/fabric/engine.h"
#include "softrdma/process/part.h"

struct sr_cm_device;
struct sr_cm_msg;
struct sr_mad_conn;
struct sr_peer;
struct sr_sidr;

enum sr_cm_state {
	CM_IDLE,
	CM_BOUND,
	CM_ADDR_RESOLVED,
	CM_ROUTE_RESOLVED,
	CM_LISTEN,
	CM_EMBRYO,     /* socket accepted, REQ not received; the application has no event of it */
	CM_REQ_FLYING, /* no id listens so far */
	CM_REQ_SENT,
	CM_REQ_RECEIVED,
	CM_REP_RECEIVED,
	CM_REP_SENT,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RECEIVED,
	CM_RESOLVED, /* datagrams: the peer is known, or knows this side; no connection follows */
	CM_CLOSED,   /* disconnected, rejected or failed */
};

/* A group that an id has joined. */
struct sr_group {
	struct sr_group *next;
	struct sockaddr_storage addr;
	union ibv_gid gid;
};

/* sr_cm_lock guards all fields, except those of ib that belong to the application. */
struct sr_cm_id {
	struct rdma_cm_id ib;
	struct sr_cm_id *next; /* in its hash bucket */
	uint64_t serial;
	enum sr_cm_state state;
	const struct sr_cm_way *way; /* never NULL */
	int sock;		     /* owned; -1 */
	uint64_t listener;	     /* embryo: serial of the listening id */
	bool is_sync;		     /* created without a channel: calls wait for their event */
	bool is_v6only, has_v6only, may_share_port;
	int backlog, max_backlog; /* requests that may still be queued, and at most */
	struct sr_peer *peer;	  /* ref */
	struct sr_mad_conn *conn; /* by MADs: from the REQ until the protocol is over */
	enum ibv_mtu path_mtu;
	uint32_t local_qpn, remote_qpn;
	struct sr_sidr *sidr;	 /* by MADs: a service id that is being resolved */
	struct sr_group *groups; /* owned; that it has joined */
	/* Starting PSNs as REQ and REP carry them: each side tells where the other begins to send,
	 * IBA 12.7.31. So the first request to this side has local_psn. */
	uint32_t local_psn, remote_psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	uint8_t ack_timeout;	   /* CM_ACK_TIMEOUT_UNSET: the way's default */
	unsigned delivered, acked; /* events that the application fetched, and acknowledged */
	pthread_cond_t cond;	   /* acked changed */
	struct sr_timer timer;
	struct sr_cm_msg *req; /* owned; the REQ until it is delivered */
	unsigned flights;
	struct ibv_qp_init_attr *ep_attr; /* owned; from rdma_create_ep */
	bool has_own_cqs;
	struct sr_cm_device *device; /* ref; NULL until bound to it */
};

enum {
	CM_ACK_TIMEOUT_UNSET = 0xff,
};

static inline struct sr_cm_id *sr_to_cm(struct rdma_cm_id *id)
{
	return container_of(id, struct sr_cm_id, ib);
}

/* Whether it is for datagrams: RDMA_PS_UDP and the like. */
static inline bool sr_cm_is_datagram(const struct sr_cm_id *id)
{
	return id->ib.qp_type == IBV_QPT_UD;
}
