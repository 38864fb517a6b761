/* SPDX-License-Identifier: BSD-3-Clause */
/* Two connected queue pairs of this process on one loop, for tests of transport/. Everything
 * runs on the caller's thread. The pair owns both connections and their receives. */
#pragma once

#include "transport/cm.h"
#include "transport/qp.h"

enum {
	PAIR_CAPSULE = 64,
	PAIR_DATA = 4096,
	PAIR_MEMORY = 1 << 20,
	PAIR_RECEIVES = 16,
	PAIR_DEPTH = 16,
	PAIR_CQES = 256,
};

struct side {
	struct cm_conn *conn;
	struct cq cq;
	struct domain domain;
	struct qp qp;
	struct recv_ring shared;
	uint8_t *memory;
	struct mr mr;
	unsigned n_received, n_broken, n_drained, n_disconnected, n_credits;
	bool keeps_receives; /* keeps each receive instead of giving it back */
	uint8_t last_capsule[PAIR_CAPSULE], last_data[PAIR_DATA];
	uint32_t last_len;
	bool is_established;
};

struct pair {
	struct loop loop;
	struct cm *cm;
	struct cm_listener listener;
	struct side active, passive;
	bool uses_shared_ring;
	/* the passive side's answer to a request: accept, or reject with this status */
	unsigned reject_status;
	bool has_failed;
	struct cm_error error;
	uint8_t seen_req[32], seen_rep[32];
	size_t n_req, n_rep;
};

/* Makes a listener on 127.0.0.1, any port. Aborts on failure, as do all functions here. */
void pair_init(struct pair *p);
/* Connects; runs the loop until both sides are established or the active side failed. */
void pair_connect(struct pair *p);
void pair_deinit(struct pair *p);
/* Turns the loop until *counter reaches at_least; false after five seconds. */
bool pair_wait(struct pair *p, const unsigned *counter, unsigned at_least);
/* Runs some turns, to show that something does not happen. */
void pair_settle(struct pair *p);
void side_drain(struct pair *p, struct side *side);
