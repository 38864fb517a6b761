/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections: what the messages of the peer, and time, do to an id. */
#pragma once

#include <rdma/rdma_cma.h>
#include <stdint.h>

struct sr_cm_event;
struct sr_cm_id;
struct sr_cm_msg;

/* A REQ for the listener with that serial. 0, and child has it as its request; or the reason for
 * which the caller rejects it, and frees child. */
uint32_t sr_cm_on_request(struct sr_cm_id *child, uint64_t listener, const struct sr_cm_msg *m);
/* Any other message. A REP's sender must be one with which this process can exchange data. */
void sr_cm_on_message(struct sr_cm_id *id, const struct sr_cm_msg *m);
/* The peer is gone without a message. */
void sr_cm_on_gone(struct sr_cm_id *id);
/* The peer has answered the DREQ, or never will (status). */
void sr_cm_on_disconnected(struct sr_cm_id *id, int status);
/* The attempt to connect ends with that event; m: the REJ, or NULL. */
void sr_cm_raise_failed(struct sr_cm_id *id, enum rdma_cm_event_type type, int status,
			const struct sr_cm_msg *m);

/* The steps of a connection */
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
