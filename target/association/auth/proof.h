/* SPDX-License-Identifier: BSD-3-Clause */
/* Of a queue: whose proof it is, and its turn to have it computed (turn.h). */
#pragma once

#include "base/list.h"
#include "base/loop.h"

struct host;
struct queue;
struct request;

struct proof {
	/* Thread: control */
	struct host *guest; /* counted: by its address; NULL: its host has no key */
	struct list node;   /* guest->provers, while it waits for a worker thread */
	bool has_turn;	    /* counted in guest->n_proofs */
	/* Thread: poller */
	struct request *request; /* the Send that is computed for */
	unsigned n_negotiations; /* since the last proof */
	void (*on_turn)(struct queue *queue);
	struct loop_msg ask, over; /* the first to control and back */
};
