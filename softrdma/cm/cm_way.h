/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way by which a connection's messages travel: a socket between processes of one host
 * (cm_socket.c), MADs between machines (cm_mads.c). The calls above choose it with the
 * destination; they and the steps of a connection (cm_conn.c) are the same for each. Everything is
 * called under sr_cm_lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

struct sr_cm_id;
struct sr_cm_msg;

struct sr_cm_way {
	/* Carries id->req to the listener on id's destination. Moves id from REQ_FLYING to
	 * REQ_SENT, now or later, or fails it with sr_cm_raise_failed. */
	void (*request)(struct sr_cm_id *id);
	/* Sends a message other than the REQ. 0 or -errno. */
	int (*send)(struct sr_cm_id *id, struct sr_cm_msg *m);
	/* The program says that data arrived: it stands for the RTU. */
	void (*established)(struct sr_cm_id *id);
	/* The id is being destroyed: notifies the peer as far as the id's state asks for it. */
	void (*leave)(struct sr_cm_id *id);
	/* Whether the way itself repeats messages, gives up and keeps timewait; if not, the id's
	 * timer does. */
	bool keeps_time;
	/* For a queue pair whose program has set none: 4.096 us * 2^n for each retry. */
	uint8_t ack_timeout;
};
