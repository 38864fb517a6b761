/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The authentication of a connection whose host has a key, and its turn at a worker thread
 * (turn.h). Owner: struct connection, which embeds it.
 */
#pragma once

#include "base/list.h"
#include "base/loop.h"

struct auth_session;
struct connection;
struct host;
struct request;

/*
 *     IDLE ---> WAITS ---> COMPUTES ---> IDLE
 *
 * A proof that finds a worker thread free does not wait. If its connection dies, it ends.
 */
enum proof_turn {
	PROOF_IDLE,
	PROOF_WAITS,	/* in line for a worker thread */
	PROOF_COMPUTES, /* counted in guest->n_proofs */
};

struct proof {
	/* Control sets both before it answers Connect, and frees them with the connection. */
	struct auth_session *session; /* owned; NULL: the host has no key */
	struct host *guest; /* holds a reference: the guest for its address; NULL likewise */
	/* Thread: control */
	enum proof_turn turn;
	struct list node; /* guest->provers, while PROOF_WAITS */
	/* Thread: poller */
	struct request *request; /* the current Send; NULL: the session is not in use */
	unsigned n_negotiations; /* since the last proof */
	unsigned n_refusals;	 /* since the last proof */
	void (*on_turn)(struct connection *c);
	struct loop_msg ask, turn_over; /* ask: to control and back */
	struct loop_msg proven;		/* to control, after the first proof */
	bool is_proven_sent;
};
