/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <rdma/rdma_cma.h>

#include "dev.h"
#include "node.h"

/* The connection manager: librdmacm's objects behind its public structures. */

enum {
	CM_REQ_DATA = 56,  /* private data sizes of RDMA_PS_TCP over InfiniBand's CM: */
	CM_REP_DATA = 196, /* events always carry the maximum, zero padded */
	CM_REJ_DATA = 148,
	CM_MAX_DATA = 196,
	CM_REJ_NO_LISTENER = 8, /* IBA table 99: invalid service id */
	CM_REJ_CONSUMER = 28,
	CM_REJ_UNREACHABLE = 5, /* "unsupported request": the two cannot copy to each other */
	CM_DEFAULT_BACKLOG = 1024,
};

enum cm_state {
	CM_IDLE,
	CM_BOUND,
	CM_ADDR_RESOLVED,
	CM_ROUTE_RESOLVED,
	CM_LISTEN,
	CM_EMBRYO,     /* socket accepted, REQ not here yet; not known to the application */
	CM_REQ_FLYING, /* nobody listened so far */
	CM_REQ_SENT,
	CM_REQ_RECEIVED,
	CM_REP_RECEIVED,
	CM_REP_SENT,
	CM_ESTABLISHED,
	CM_DREQ_SENT,
	CM_DREQ_RECEIVED,
	CM_CLOSED, /* disconnected, rejected or failed */
};

enum cm_msg_type {
	CM_MSG_REQ = 1,
	CM_MSG_REP,
	CM_MSG_RTU,
	CM_MSG_REJ,
	CM_MSG_DREQ,
	CM_MSG_DREP
};

/* One packet on the connection's socket. REQ and REP bring the descriptors of hello. */
struct cm_msg {
	uint32_t type; /* enum cm_msg_type */
	uint32_t reason;
	uint32_t qpn, psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count, srq;
	uint8_t data_len;
	uint8_t data[CM_MAX_DATA];
	struct hello hello;
	struct sockaddr_in6 src, dst; /* REQ; large enough for both families */
};

struct cm_event {
	struct rdma_cm_event ev;
	struct cm_event *next;
	struct cm_id *id; /* whose counters this event is on */
	uint8_t data[CM_MAX_DATA];
};

struct cm_channel {
	struct rdma_event_channel ib;
	struct cm_event *first, **last;
};

/* Everything is guarded by cm_lock, but ib's fields that belong to the application. */
struct cm_id {
	struct rdma_cm_id ib;
	struct cm_id *next; /* in its hash bucket */
	uint64_t serial;
	enum cm_state state;
	int sock;	   /* owned; -1 */
	uint64_t listener; /* embryo: serial of the id it came in by */
	bool sync;	   /* created without a channel: calls wait for their event */
	bool afonly, afonly_set, reuse;
	int backlog;	   /* requests that may still be queued */
	struct peer *peer; /* ref */
	uint32_t local_qpn, local_psn, remote_qpn, remote_psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count, ack_timeout;
	unsigned delivered, acked; /* events got and acknowledged by the application */
	pthread_cond_t cond;	   /* acked changed */
	struct timer timer;
	struct cm_msg *req; /* owned; the REQ while it is flying */
	unsigned flights;
	struct ibv_qp_init_attr *ep_attr; /* owned; from rdma_create_ep */
	bool own_cqs;
	struct cm_device *device; /* ref; NULL until bound to it */
};

extern pthread_mutex_t cm_lock;

static inline struct cm_id *to_cm(struct rdma_cm_id *id)
{
	return container_of(id, struct cm_id, ib);
}

int cm_fail(int err); /* errno = err; -1 */

/* cm.c: ids */
struct cm_id *cm_new(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps);
void cm_free(struct cm_id *id);
struct cm_id *cm_find(uint64_t serial);
int cm_set_device(struct cm_id *id);
/* Application. Closes the contexts of removed devices on which no id stands. */
void cm_close_unused_devices(void);
int cm_wait_sync(struct cm_id *id, int r);
/* Tell every id that has the device that it is gone. */
void cm_device_removed(void);
void cm_close_socket(struct cm_id *id);
void cm_forget(void);

/* cm_addr.c: addresses and the names of sockets */
int cm_bind(struct cm_id *id, const struct sockaddr *sa);
/* Connects id's socket to whoever listens on its destination. 0 or -errno. */
int cm_find_listener(struct cm_id *id);
socklen_t cm_sockaddr_len(const struct sockaddr *sa);

/* cm_event.c */
struct cm_event *cm_event_new(struct cm_id *about, enum rdma_cm_event_type type, int status);
void cm_event_queue(struct rdma_event_channel *ch, struct cm_event *e);
void cm_raise(struct cm_id *id, enum rdma_cm_event_type type, int status);
void cm_event_data(struct cm_event *e, const struct cm_msg *m, uint8_t padded_len);
void cm_events_drop(struct cm_id *id);
void cm_events_move(struct cm_id *id, struct rdma_event_channel *from,
		    struct rdma_event_channel *to);

/* cm_conn.c */
void cm_on_socket(uint64_t serial);
int cm_to_rtr_rts(struct cm_id *id);
int cm_send(struct cm_id *id, enum cm_msg_type type);
/* The application's id goes while the connection lives: what the peer is told. */
void cm_say_goodbye(struct cm_id *id);
/* In rdma_get_cm_event: the active side's last step. */
void cm_finish_connect(struct cm_id *id, struct cm_event *e);
/* In rdma_get_cm_event: the request was rejected or failed. */
void cm_on_failed(struct cm_id *id);
