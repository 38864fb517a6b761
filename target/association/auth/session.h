/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller's side of DH-HMAC-CHAP on one queue, without commands and connections: messages in,
 * messages out. The host drives:
 *
 *   IDLE --Negotiate--> CHALLENGE --read--> REPLY --Reply--> SUCCESS1 --read--> IDLE, proven
 *                                                                |                  |
 *   any --a bad message--> FAILURE1 --read--> IDLE               +--read--> SUCCESS2 (the host
 *                                                                            challenged us)
 *
 * A Negotiate starts anew at any time. One thread at a time.
 */
#pragma once

#include "target/config/credentials.h"
#include "transport/auth_message.h"

enum auth_step {
	AUTH_STEP_IDLE,	     /* a Negotiate begins */
	AUTH_STEP_CHALLENGE, /* the host may read it */
	AUTH_STEP_REPLY,     /* the host has it to send */
	AUTH_STEP_SUCCESS1,  /* the host may read it */
	AUTH_STEP_SUCCESS2,  /* the host has it to send */
	AUTH_STEP_FAILURE1,  /* the host may read it */
};

enum auth_outcome {
	AUTH_GOES_ON,
	AUTH_PROVEN, /* the host is who it says */
	AUTH_REFUSED,
};

struct auth_session {
	/* Thread: whoever has it; auth_alloc'd, for it holds secrets while an exchange runs */
	const char *hostnqn, *subnqn;	/* borrowed */
	struct credentials credentials; /* a copy, from Negotiate to the end */
	enum auth_step step;
	uint16_t tid;
	unsigned hash, dhgroup;
	uint32_t seqnum;
	struct auth_dh dh;
	uint8_t challenge[AUTH_HASH_MAX];  /* ours */
	uint8_t secret[AUTH_DH_MAX];	   /* of the exchange */
	uint8_t message[AUTH_MESSAGE_MAX]; /* for the host to read */
	size_t n_message;
	bool must_prove_us; /* the host sends a Success2 */
	bool has_used_second_key;
	char why[96]; /* the refusal, for the log: one line without secrets */
};

/* Before each Negotiate, which starts anew at any time: the keys as they are now; NULL: there are
 * none, and it will be refused. */
void auth_session_begin(struct auth_session *s, const struct credentials *credentials);
/* A message of the host; takes milliseconds. */
enum auth_outcome auth_session_take(struct auth_session *s, const uint8_t *message, size_t n);
/* The host reads: fills n zeroed bytes with the message. -EPROTO: it is not its turn; -EMSGSIZE:
 * too little room. */
int auth_session_give(struct auth_session *s, uint8_t *ret_bytes, size_t n,
		      enum auth_outcome *ret_outcome);
/* Wipes all there is of an exchange. */
void auth_session_reset(struct auth_session *s);
