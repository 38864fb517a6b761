/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Secrets of DH-HMAC-CHAP: their text form, the files that hold them, and memory for them. Any
 * thread. No error text contains a secret.
 *
 * The text form is DHHC-1:hh:BASE64: (Base 2.0, 8.13.5.8). BASE64 holds 32, 48 or 64 bytes and
 * their CRC-32. hh names the hash that transforms the key with an NQN before use (00: no
 * transformation). `nvme gen-dhchap-key` writes this form, too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "transport/wire/auth.h"

enum {
	AUTH_KEY_MAX = 64,
	AUTH_KEY_TEXT = 112, /* the longest secret as text, with NUL */
	AUTH_KEYS = 2,	     /* of one owner: the old and the new one during a change */
};

struct auth_key {
	uint8_t bytes[AUTH_KEY_MAX];
	uint8_t n;    /* 32, 48 or 64; 0: no key */
	uint8_t hash; /* enum nvmf_auth_hash: of the transformation */
};

/* NULL; or what is wrong with the text: static, and without any part of the text. */
const char *auth_key_parse(const char *text, struct auth_key *ret_key);
void auth_key_format(const struct auth_key *key, char ret_text[AUTH_KEY_TEXT]);
/* A new random key of n bytes. 0 or -EIO. */
int auth_key_generate(unsigned n, enum nvmf_auth_hash hash, struct auth_key *ret_key);

/*
 * Reads a file of secrets, one a line; skips empty lines and those that begin with #. The file must
 * belong to our user or root, and no other user may have any access to it. Returns the number of
 * keys, 1 to max; or -errno with *error.
 */
int auth_key_read_file(const char *path, struct auth_key *ret_keys, unsigned max,
		       struct error *error);

/* Zeroed memory that is left out of core dumps; NULL without memory. The caller frees it with
 * auth_free. */
void *auth_alloc(size_t n);
/* Wipes and frees memory. Accepts NULL. */
void auth_free(void *memory, size_t n);
/* Overwrites memory in a way that the compiler cannot optimize away. */
void auth_wipe(void *memory, size_t n);
