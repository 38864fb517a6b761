/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events on their way to the application, and the channels that queue them. Everything is called
 * under sr_cm_lock. An event that was queued is its channel's, and then the application's.
 */
#pragma once

#include <rdma/rdma_cma.h>
#include <stdint.h>

#include "softrdma/cm/cm_message.h"
#include "softrdma/verbs/context.h"

struct sr_cm_id;

struct sr_cm_event {
	struct rdma_cm_event ev;
	struct sr_cm_event *next;
	struct sr_cm_id *id; /* the id whose counters include this event */
	uint8_t data[CM_MAX_DATA];
};

/*
 * A program may destroy a channel while one of its threads waits for an event of it, or is about to
 * (rping does both): such a thread is refused, and the memory stays until the last one has left.
 */
struct sr_cm_channel {
	struct rdma_event_channel ib;
	struct sr_cm_channel *next; /* of those that are not destroyed */
	struct sr_cm_event *first, **last;
	unsigned n_fetching; /* threads in sr_cm_event_fetch */
};

static inline struct sr_cm_channel *sr_to_channel(struct rdma_event_channel *ch)
{
	return container_of(ch, struct sr_cm_channel, ib);
}

struct sr_cm_event *sr_cm_event_new(struct sr_cm_id *about, enum rdma_cm_event_type type,
				    int status);
void sr_cm_event_queue(struct rdma_event_channel *ch, struct sr_cm_event *e);
void sr_cm_raise(struct sr_cm_id *id, enum rdma_cm_event_type type, int status);
void sr_cm_event_data(struct sr_cm_event *e, const struct sr_cm_msg *m, uint8_t padded_len);
/* The same for datagrams; m->qkey and m->qpn are the peer's. */
void sr_cm_event_datagram(struct sr_cm_event *e, const struct sr_cm_msg *m, uint8_t padded_len);
void sr_cm_events_drop(struct sr_cm_id *id);
void sr_cm_events_move(struct sr_cm_id *id, struct rdma_event_channel *from,
		       struct rdma_event_channel *to);

/*
 * Waits for the channel's next event and takes it out, for the calling thread of the application,
 * which does not hold sr_cm_lock. NULL with errno: EBADF where there is no such channel (any more),
 * or what read(2) of its descriptor says (EAGAIN).
 */
struct sr_cm_event *sr_cm_event_fetch(struct rdma_event_channel *ch);
