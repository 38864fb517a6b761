/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What DH-HMAC-CHAP computes (Base 2.0, 8.13.5): keys of a Diffie-Hellman exchange, and the response
 * to a challenge. Over libcrypto. Any thread; one of the larger groups takes some milliseconds.
 */
#pragma once

#include "transport/auth_key.h"

enum {
	AUTH_HASH_MAX = 64,
	AUTH_DH_MAX = 1024,
};

/* Bytes of a hash, which a challenge and a response have too; 0: there is no such hash. */
unsigned auth_hash_bytes(unsigned hash);
/* Bytes of a group's prime, and of every value that is exchanged; 0 for NVMF_DH_NULL. */
unsigned auth_dh_bytes(unsigned dhgroup);
/* "sha256", "ffdhe2048", "null"; for messages and configurations. */
const char *auth_hash_name(unsigned hash);
const char *auth_dh_name(unsigned dhgroup);

/* Our half of a Diffie-Hellman exchange. Zero it before; deinit accepts that. */
struct auth_dh {
	void *key; /* owned */
	unsigned n;
	uint8_t public_value[AUTH_DH_MAX]; /* n bytes, big-endian */
};
/* A new key pair; nothing to do for NVMF_DH_NULL. 0 or -EIO. */
int auth_dh_init(struct auth_dh *dh, unsigned dhgroup);
void auth_dh_deinit(struct auth_dh *dh);
/* The secret that both sides come to, dh->n bytes. -EINVAL when the peer's value (dh->n bytes) is
 * none that an honest peer sends. */
int auth_dh_derive(const struct auth_dh *dh, const uint8_t *peer_value,
		   uint8_t ret_secret[AUTH_DH_MAX]);

/* All that goes into one response. */
struct auth_proof {
	unsigned hash;
	bool is_controllers; /* it proves the controller to the host */
	const struct auth_key *key;
	const uint8_t *challenge; /* auth_hash_bytes */
	uint32_t seqnum;
	uint16_t tid;
	const uint8_t *secret; /* of the exchange; n_secret is 0 without one */
	unsigned n_secret;
	const char *hostnqn, *subnqn;
};
/* auth_hash_bytes(proof->hash) bytes. 0 or -EIO. */
int auth_respond(const struct auth_proof *proof, uint8_t ret_response[AUTH_HASH_MAX]);

/* In a time that does not depend on the contents. */
bool auth_is_equal(const uint8_t *a, const uint8_t *b, unsigned n);
/* 0 or -EIO. */
int auth_random(void *bytes, unsigned n);
