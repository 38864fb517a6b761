/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The computations of DH-HMAC-CHAP (Base 2.0, 8.13.5), by libcrypto: keys of a Diffie-Hellman
 * exchange, and the response to a challenge. Any thread. A larger group takes some milliseconds.
 * The caller owns all buffers.
 */
#pragma once

#include "transport/auth_key.h"

enum {
	AUTH_HASH_MAX = 64,
	AUTH_DH_MAX = 1024,
};

/* Bytes of a hash, and so of a challenge and of a response; 0: there is no such hash. */
unsigned auth_hash_bytes(unsigned hash);
/* Bytes of a group's prime, and so of each exchanged value; 0 for NVMF_DH_NULL. */
unsigned auth_dh_bytes(unsigned dhgroup);
/* "sha256", "ffdhe2048", "null": for messages and configuration files. */
const char *auth_hash_name(unsigned hash);
const char *auth_dh_name(unsigned dhgroup);

/* Our half of a Diffie-Hellman exchange. Zero it first; auth_dh_deinit accepts that. */
struct auth_dh {
	void *key; /* owned */
	unsigned n;
	uint8_t public_value[AUTH_DH_MAX]; /* n bytes, big-endian */
};
/* Makes a new key pair, none for NVMF_DH_NULL. 0 or -EIO. */
int auth_dh_init(struct auth_dh *dh, unsigned dhgroup);
void auth_dh_deinit(struct auth_dh *dh);
/* The shared secret, dh->n bytes. peer_value has dh->n bytes. 0; -EINVAL: no honest peer sends that
 * value. */
int auth_dh_derive(const struct auth_dh *dh, const uint8_t *peer_value,
		   uint8_t ret_secret[AUTH_DH_MAX]);

/* The inputs of one response. All are borrowed. */
struct auth_proof {
	unsigned hash;
	bool is_controllers; /* the controller's response to the host */
	const struct auth_key *key;
	const uint8_t *challenge; /* auth_hash_bytes */
	uint32_t seqnum;
	uint16_t tid;
	const uint8_t *secret; /* of the Diffie-Hellman exchange; n_secret 0: none */
	unsigned n_secret;
	const char *hostnqn, *subnqn;
};
/* Computes a response of auth_hash_bytes(proof->hash) bytes. 0 or -EIO. */
int auth_respond(const struct auth_proof *proof, uint8_t ret_response[AUTH_HASH_MAX]);

/* A number by which two secrets are compared that are not kept: that of another secret differs. It
 * tells nothing about the secret. Never 0; 0 is no secret. */
uint64_t auth_key_mark(const struct auth_key *key);

/* Compares in a time that does not depend on the contents. */
bool auth_is_equal(const uint8_t *a, const uint8_t *b, unsigned n);
/* 0 or -EIO. */
int auth_random(void *bytes, unsigned n);
