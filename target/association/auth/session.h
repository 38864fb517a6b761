/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller's side of DH-HMAC-CHAP on one queue, without commands and connections: messages
 * in, messages out. The host drives:
 *
 *   IDLE --Negotiate--> CHALLENGE --read--> REPLY --Reply--> SUCCESS1 --read--> IDLE, proven
 *                                                                |                  |
 *   any --a bad message--> FAILURE1 --read--> IDLE               +--read--> SUCCESS2 (the host
 *                                                                           challenged us)
 *
 * A Negotiate starts a new exchange at any time. One thread at a time uses a session: the queue's
 * poller, or the worker thread that computes for it. Owner: struct connection.
 */
#pragma once

#include "target/config/credentials.h"
#include "transport/auth_message.h"

enum auth_step {
	AUTH_STEP_IDLE,	     /* until a Negotiate */
	AUTH_STEP_CHALLENGE, /* the host may read it */
	AUTH_STEP_REPLY,     /* the host must send it */
	AUTH_STEP_SUCCESS1,  /* the host may read it */
	AUTH_STEP_SUCCESS2,  /* the host must send it */
	AUTH_STEP_FAILURE1,  /* the host may read it */
};

enum auth_outcome {
	AUTH_GOES_ON,
	AUTH_PROVEN, /* the host has proven its identity */
	AUTH_REFUSED,
};

struct auth_session {
	/* Thread: the one that uses it. auth_alloc'd: it holds secrets during an exchange. */
	const char *hostnqn, *subnqn;	/* borrowed */
	struct credentials credentials; /* a copy, from Negotiate to the end */
	enum auth_step step;
	uint16_t tid;
	unsigned hash, dhgroup;
	uint32_t seqnum;
	struct auth_dh dh;
	uint8_t challenge[AUTH_HASH_MAX];  /* ours */
	uint8_t secret[AUTH_DH_MAX];	   /* of this exchange */
	uint8_t message[AUTH_MESSAGE_MAX]; /* that the host may read */
	size_t n_message;
	bool must_prove_us; /* the host must send a Success2 */
	bool has_used_second_key;
	uint64_t key_mark;	/* of the last proof: auth_key_mark */
	uint64_t ctrl_key_mark; /* of ours in it; 0: the host did not ask for it */
	char why[96];		/* of the refusal, for the log: one line without secrets */
};

/* Before each Negotiate, which starts a new exchange: sets the current keys. NULL: there are none,
 * and the Negotiate will be refused. */
void auth_session_begin(struct auth_session *s, const struct credentials *credentials);
/* Handles a message of the host; takes milliseconds. */
enum auth_outcome auth_session_take(struct auth_session *s, const uint8_t *message, size_t n);
/* Fills n zeroed bytes with the message that the host reads. -EPROTO: there is none in this step;
 * -EMSGSIZE: too little room. */
int auth_session_give(struct auth_session *s, uint8_t *ret_bytes, size_t n,
		      enum auth_outcome *ret_outcome);
/* Wipes everything of an exchange. */
void auth_session_reset(struct auth_session *s);
