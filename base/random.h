/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one source of random numbers: challenges, keys, UUIDs. It is the kernel's, which is fit for
 * secrets (getrandom(2)); a test can replace it by numbers that are the same in each run. Only the
 * private keys of Diffie-Hellman come from libcrypto, inside which they are made. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	RANDOM_UUID_BYTES = 16,
};

/* 0, or -errno with the bytes unspecified. Blocks only while the machine starts. */
int random_bytes(void *bytes, size_t n);
/* A UUID of version 4 (RFC 9562, section 5.4). 0 or -errno. */
int random_uuid(uint8_t ret_uuid[RANDOM_UUID_BYTES]);

/*
 * The seam for simulation, for tests only (tests/lint/layers.py): from now on the bytes follow from
 * the seed, in the order of the calls. Before threads start. 0 returns to the kernel's.
 */
void random_seed(uint64_t seed);
