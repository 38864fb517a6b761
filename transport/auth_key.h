/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Secrets of DH-HMAC-CHAP: the form in which they are written down, the files they are kept in, and
 * memory for them. Any thread.
 *
 * A secret is written as DHHC-1:hh:BASE64: (Base 2.0, 8.13.5.8), where BASE64 holds 32, 48 or 64
 * bytes and their CRC-32, and hh names the hash by which the key is transformed with an NQN before
 * it is used (00: it is used as it is). `nvme gen-dhchap-key` writes this form too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/wire/auth.h"

enum {
	AUTH_KEY_MAX = 64,
	AUTH_KEY_TEXT = 112, /* the longest secret as text, with NUL */
	AUTH_KEYS = 2,	     /* of one owner: while a key is being changed, both */
};

struct auth_key {
	uint8_t bytes[AUTH_KEY_MAX];
	uint8_t n;    /* 32, 48 or 64; 0: no key */
	uint8_t hash; /* enum nvmf_auth_hash: of the transformation */
};

/* NULL, or what is wrong with the text, static, without any of it. */
const char *auth_key_parse(const char *text, struct auth_key *ret_key);
void auth_key_format(const struct auth_key *key, char ret_text[AUTH_KEY_TEXT]);
/* A new random key of n bytes. 0 or -EIO. */
int auth_key_generate(unsigned n, enum nvmf_auth_hash hash, struct auth_key *ret_key);

/*
 * Reads a file of secrets, one a line; empty lines and those that begin with # are passed over. The
 * file must belong to us or root, and nobody else may have any access to it. Returns how many keys
 * there are, 1 to max; or -errno with one line in why (n bytes) that never holds a secret.
 */
int auth_key_read_file(const char *path, struct auth_key *ret_keys, unsigned max, char *why,
		       size_t n);

/* Zeroed memory that is in no core dump; NULL without memory. */
void *auth_alloc(size_t n);
/* Wipes it first. Accepts NULL. */
void auth_free(void *memory, size_t n);
/* Overwrites what is not needed any more, so that the compiler does not skip it. */
void auth_wipe(void *memory, size_t n);
