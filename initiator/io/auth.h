/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's side of DH-HMAC-CHAP, without commands and connections; one for each queue. The owner
 * does what each call returns: sends the message with Authentication Send and tells so, or receives
 * one with Authentication Receive and hands it over.
 *
 *   begin -> SEND Negotiate -> sent -> RECEIVE -> take (Challenge) -> SEND Reply -> sent -> RECEIVE
 *     -> take (Success1) -> DONE, or to prove the target: SEND Success2 -> sent -> DONE
 *   what is wrong with the target's message: SEND Failure2 -> sent -> FAILED
 */
#pragma once

#include "transport/auth_message.h"

/* The secrets in a volume's files. */
struct auth_keys {
	struct auth_key key, ctrl_key; /* n is 0: none is configured */
};

enum auth_host_step {
	AUTH_HOST_SEND,	   /* auth->message, n_message bytes */
	AUTH_HOST_RECEIVE, /* AUTH_BUFFER_BYTES */
	AUTH_HOST_DONE,
	AUTH_HOST_FAILED,
};

enum auth_host_failure {
	AUTH_HOST_OK,
	AUTH_HOST_NO_KEY,	/* the target asks, and we have none */
	AUTH_HOST_NOT_ASKED,	/* it must prove itself, and asks for nothing */
	AUTH_HOST_REFUSED,	/* by the target; explanation says why */
	AUTH_HOST_WRONG_TARGET, /* it has not the key that it should have */
	AUTH_HOST_PROTOCOL,	/* its messages make no sense; explanation says why */
	AUTH_HOST_RESOURCES,
};

struct auth_host {
	/* Thread: of the queue; from auth_alloc, because it holds secrets */
	struct auth_keys keys;	      /* a copy */
	const char *hostnqn, *subnqn; /* borrowed */
	int wanted;		      /* kind of message that comes next */
	bool must_prove_us;	      /* Success1 was good, and Success2 is on its way */
	uint16_t tid;
	unsigned hash;
	uint8_t challenge[AUTH_HASH_MAX]; /* ours, for the target */
	uint32_t seqnum;
	struct auth_dh dh;
	uint8_t secret[AUTH_DH_MAX];
	uint8_t message[AUTH_MESSAGE_MAX];
	size_t n_message;
	enum auth_host_failure failure;
	enum nvmf_auth_failure explanation;
};

/* A Connect was granted with this result: whether to authenticate. *ret_failure when that cannot
 * be, or what came was too little; keys may be NULL. */
bool auth_host_is_asked(const struct auth_keys *keys, uint64_t connect_result,
			enum auth_host_failure *ret_failure);

/* begin builds the first message, Negotiate; it copies keys and borrows the names until the
 * exchange is over. sent: the target has accepted auth->message. Both return what the caller does
 * next. */
enum auth_host_step auth_host_begin(struct auth_host *auth, const struct auth_keys *keys,
				    const char *hostnqn, const char *subnqn);
enum auth_host_step auth_host_sent(struct auth_host *auth);
/* AUTH_BUFFER_BYTES that the target cannot change any more. May take milliseconds. */
enum auth_host_step auth_host_take(struct auth_host *auth, const uint8_t *bytes);
/* Wipes it; accepts one that is zeroed. */
void auth_host_reset(struct auth_host *auth);

/* The command of a step (SEND or RECEIVE), without CID and SGL; returns its bytes of data. */
uint32_t auth_host_fill_command(const struct auth_host *auth, enum auth_host_step step,
				struct nvme_sqe *ret_sqe);
