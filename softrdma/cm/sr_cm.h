/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager: librdmacm's objects behind its public structures.
 *
 * Application threads call in, and the helper thread runs the sockets of connections. One mutex,
 * sr_cm_lock, guards the objects. No thread waits or modifies a queue pair while it holds the lock:
 * functions here that do so are called without it and take it themselves, the others run under it.
 * An id, a channel and an event are the application's, which frees them through librdmacm's calls;
 * the helper finds an id by its serial number only. Public calls return 0, or -1 with errno;
 * functions of this header 0 or -errno.
 */
#pragma once

#include <rdma/rdma_cma.h>

#include "softrdma/verbs/context.h"
#include "softrdma/fabric/node.h"
#include "softrdma/process/helper.h"
#include "softrdma/process/timer.h"
#include "softrdma/cm/cm_addr.h"
#include "softrdma/cm/cm_message.h"
#include "softrdma/cm/cm_queue.h"
#include "softrdma/cm/cm_way.h"
#include "softrdma/fabric/engine.h"
#include "softrdma/process/part.h"

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
	int backlog;		  /* requests that may still be queued */
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

extern pthread_mutex_t sr_cm_lock;

static inline struct sr_cm_id *sr_to_cm(struct rdma_cm_id *id)
{
	return container_of(id, struct sr_cm_id, ib);
}

/* Whether it is for datagrams: RDMA_PS_UDP and the like. */
static inline bool sr_cm_is_datagram(const struct sr_cm_id *id)
{
	return id->ib.qp_type == IBV_QPT_UD;
}

int sr_cm_fail(int err); /* errno = err; -1 */

/* cm_id.c: the table of ids. Under sr_cm_lock, except sr_cm_new and sr_cm_for_each, which take
 * it. */
struct sr_cm_id *sr_cm_new(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
			   const struct sr_cm_way *way);
void sr_cm_free(struct sr_cm_id *id); /* it has no events left */
struct sr_cm_id *sr_cm_find(uint64_t serial);
void sr_cm_close_socket(struct sr_cm_id *id);
void sr_cm_for_each(void (*fn)(struct sr_cm_id *id));

/* cm_device.c */
int sr_cm_set_device(struct sr_cm_id *id);
void sr_cm_leave_device(struct sr_cm_id *id);
/* Application thread. Closes the contexts of removed devices that no id uses. */
void sr_cm_close_unused_devices(void);

/* cm_qp.c: the exponent of the queue pair's time-out; the way from this side to the peer's */
uint8_t sr_cm_ack_timeout(const struct sr_cm_id *id);
void sr_cm_fill_address(const struct sr_cm_id *id, struct ibv_ah_attr *ret);

/* cm_conn.c: the steps of a connection */
int sr_cm_to_rtr_rts(struct sr_cm_id *id);
int sr_cm_establish(struct sr_cm_id *id);
void sr_cm_enter_timewait(struct sr_cm_id *id);
/* Starts the id's timer anew, unless its way keeps time itself. */
void sr_cm_start_timer(struct sr_cm_id *id, uint64_t ms);
void sr_cm_on_timer(uint64_t serial);
/* In rdma_get_cm_event: the active side's last step. */
void sr_cm_finish_connect(struct sr_cm_id *id, struct sr_cm_event *e);
/* The connection ends: its queue pair goes to ERR. Without sr_cm_lock. */
void sr_cm_on_failed(struct sr_cm_id *id);

/* cm_calls.c: calls on a synchronous id end with the event that answers them. */
int sr_cm_wait_sync(struct sr_cm_id *id, int r);
