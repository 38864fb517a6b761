/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsers and writers for the messages of DH-HMAC-CHAP. Pure, any thread. A parser accepts any
 * bytes and returns NVMF_AUTH_OK, or the failure to answer with. The pointers that it returns are
 * into the message, which the caller keeps. A writer returns the number of bytes; ret_message has
 * room for AUTH_MESSAGE_MAX.
 */
#pragma once

#include <stddef.h>

#include "transport/auth_crypto.h"

enum {
	/* The longest is a Reply: header, response, challenge, Diffie-Hellman value. */
	AUTH_MESSAGE_MAX = sizeof(struct nvmf_auth_reply) + 2 * AUTH_HASH_MAX + AUTH_DH_MAX,
	/* The longest message that is accepted, and the room that is offered: hosts and targets
	 * use a page. */
	AUTH_BUFFER_BYTES = 4096,
};

/* The kind of a message, type << 8 | id; -1: it is too short. */
int auth_message_kind(const uint8_t *message, size_t n);
#define AUTH_KIND(type, id) ((type) << 8 | (id))
#define AUTH_KIND_NEGOTIATE AUTH_KIND(NVMF_AUTH_COMMON, NVMF_AUTH_NEGOTIATE)
#define AUTH_KIND_CHALLENGE AUTH_KIND(NVMF_AUTH_CHAP, NVMF_AUTH_CHALLENGE)
#define AUTH_KIND_REPLY	    AUTH_KIND(NVMF_AUTH_CHAP, NVMF_AUTH_REPLY)
#define AUTH_KIND_SUCCESS1  AUTH_KIND(NVMF_AUTH_CHAP, NVMF_AUTH_SUCCESS1)
#define AUTH_KIND_SUCCESS2  AUTH_KIND(NVMF_AUTH_CHAP, NVMF_AUTH_SUCCESS2)
#define AUTH_KIND_FAILURE1  AUTH_KIND(NVMF_AUTH_COMMON, NVMF_AUTH_FAILURE1)
#define AUTH_KIND_FAILURE2  AUTH_KIND(NVMF_AUTH_COMMON, NVMF_AUTH_FAILURE2)

/* The transaction identifier of a message, which must be long enough for a kind. */
uint16_t auth_message_tid(const uint8_t *message);

struct auth_offer {
	uint16_t tid;
	unsigned hashes, dhgroups; /* bits by identifier; unknown identifiers are left out */
};
/* AUTH_Negotiate: n bytes from the wire; the failure to answer with, or NVMF_AUTH_OK. The other
 * writes one and returns its length. */
enum nvmf_auth_failure auth_parse_negotiate(const uint8_t *message, size_t n,
					    struct auth_offer *ret_offer);
size_t auth_write_negotiate(const struct auth_offer *offer, uint8_t *ret_message);

struct auth_challenge {
	uint16_t tid;
	unsigned hash, dhgroup;
	uint32_t seqnum;
	const uint8_t *challenge; /* auth_hash_bytes */
	const uint8_t *dh_value;  /* auth_dh_bytes */
};
/* DH-HMAC-CHAP_Challenge, in the same way. The results point into the message. */
enum nvmf_auth_failure auth_parse_challenge(const uint8_t *message, size_t n,
					    struct auth_challenge *ret_challenge);
size_t auth_write_challenge(const struct auth_challenge *challenge, uint8_t *ret_message);

struct auth_reply {
	uint16_t tid;
	const uint8_t *response;
	bool has_challenge; /* the host authenticates the controller, too */
	uint32_t seqnum;
	const uint8_t *challenge; /* as long as the hash, with has_challenge or not */
	const uint8_t *dh_value;
};
/* hash and dhgroup are those of the exchange. */
enum nvmf_auth_failure auth_parse_reply(const uint8_t *message, size_t n, unsigned hash,
					unsigned dhgroup, struct auth_reply *ret_reply);
size_t auth_write_reply(const struct auth_reply *reply, unsigned hash, unsigned dhgroup,
			uint8_t *ret_message);

/* *ret_response is NULL when the message has none. */
enum nvmf_auth_failure auth_parse_success1(const uint8_t *message, size_t n, unsigned hash,
					   const uint8_t **ret_response);
/* response may be NULL: none. */
size_t auth_write_success1(uint16_t tid, unsigned hash, const uint8_t *response,
			   uint8_t *ret_message);
size_t auth_write_success2(uint16_t tid, uint8_t *ret_message);

/* The explanation in a failure1 or failure2 message. */
enum nvmf_auth_failure auth_parse_failure(const uint8_t *message, size_t n);
size_t auth_write_failure(enum nvmf_auth_id id, uint16_t tid, enum nvmf_auth_failure explanation,
			  uint8_t *ret_message);
/* "authentication failed", "hash not usable"; never NULL. */
const char *auth_failure_string(enum nvmf_auth_failure explanation);
