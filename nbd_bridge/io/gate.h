/* SPDX-License-Identifier: BSD-3-Clause */
/* The gate before new connections: see gate.c. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"

struct nbd_conn;
struct worker;

/* The part of a volume process. Thread: control. */
struct gate {
	struct list *workers; /* borrowed: of struct worker */
	uint64_t n_tickets;
};

/* The part of a worker. */
struct gate_worker {
	/* Thread: control */
	struct gate *gate;	  /* borrowed */
	uint64_t asked, answered; /* up to which ticket */
	bool is_asked;		  /* ask is on its way there or back */

	struct loop_msg ask; /* to the worker and back */
	struct loop_msg open;

	/* Thread: any; written by control */
	_Atomic bool is_open_sent;

	/* Thread: the worker's */
	unsigned n_waited_for; /* connections that had ended when it was asked */
	bool must_answer;
};

/* Control thread: a worker that begins. Its connections come later than all that have ended. */
void gate_add_worker(struct gate *gate, struct worker *worker);
/* Control thread: for a connection that is about to be given to a worker. */
uint64_t gate_take_ticket(struct gate *gate, bool is_alone);
/* Control thread: asks the workers on behalf of the tickets that were taken. */
void gate_ask(struct gate *gate);

/* Worker thread: aborts the connection when its client has closed its end and takes no replies
 * either. */
void gate_look(struct nbd_conn *conn);
/* Worker thread: the connection's last I/O is back. */
void gate_conn_gone(struct worker *worker, struct nbd_conn *conn);
