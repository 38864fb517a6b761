/* SPDX-License-Identifier: BSD-3-Clause */
/* See random.h. State: the sequence of the seed; 0 outside simulations. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

#include "base/bits.h"
#include "base/random.h"

static _Atomic uint64_t sequence;

void random_seed(uint64_t seed)
{
	atomic_store(&sequence, seed);
}

/* SplitMix64: its sequence has no short period, whatever the seed. */
static uint64_t next_of_sequence(void)
{
	uint64_t z = atomic_fetch_add(&sequence, 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static void fill_from_sequence(uint8_t *bytes, size_t n)
{
	for (size_t at = 0; at < n; at += sizeof(uint64_t)) {
		uint64_t value = next_of_sequence();

		memcpy(bytes + at, &value, MIN(sizeof(value), n - at));
	}
}

int random_bytes(void *bytes, size_t n)
{
	uint8_t *at = bytes;

	if (UNLIKELY(atomic_load(&sequence) != 0)) {
		fill_from_sequence(at, n);
		return 0;
	}
	while (n) { /* a signal may cut short a request of more than 256 bytes */
		ssize_t n_got = getrandom(at, n, 0);

		if (n_got < 0 && errno != EINTR)
			return -errno;
		if (n_got > 0) {
			at += n_got;
			n -= (size_t)n_got;
		}
	}
	return 0;
}

int random_uuid(uint8_t ret_uuid[RANDOM_UUID_BYTES])
{
	int r = random_bytes(ret_uuid, RANDOM_UUID_BYTES);

	ret_uuid[6] = (uint8_t)((ret_uuid[6] & 0x0f) | 0x40);
	ret_uuid[8] = (uint8_t)((ret_uuid[8] & 0x3f) | 0x80);
	return r;
}
