/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one source of random numbers: challenges, keys, UUIDs. The kernel's generator is fit for
 * secrets (getrandom(2)). A test can replace it with numbers that are the same in each run. Only
 * libcrypto has its own source, for the private keys of Diffie-Hellman. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	RANDOM_UUID_BYTES = 16,
};

/* 0; or -errno, and the bytes are unspecified. Blocks only early in the machine's boot. */
int random_bytes(void *bytes, size_t n);
/* A UUID of version 4 (RFC 9562, section 5.4). 0 or -errno. */
int random_uuid(uint8_t ret_uuid[RANDOM_UUID_BYTES]);

/*
 * The seam for simulation, for tests only (tests/lint/layers.py): from here on the seed determines
 * the bytes, in the order of the calls. Before threads start. 0 switches back to the kernel.
 */
void random_seed(uint64_t seed);
