/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rate that several threads share: so many tokens a second. Pure except for its atomics; the
 * caller provides the time.
 *
 * The bucket is a time: until then its tokens are paid for. If it is in the past, a thread moves it
 * forward and takes what it needs, or a batch, into a purse of its own. So only one command in a
 * batch touches shared memory. The time may move into the future by one such step; all threads then
 * wait until it is past. In the long run the rate is exact. Unused tokens add up to one burst.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum {
	BUCKET_BATCHES = 32, /* of a burst */
};

#define BUCKET_RATE_MAX (1ULL << 40) /* tokens a second; config/schema.c allows no more */

struct bucket {
	/* Thread: any */
	_Atomic uint64_t rate;	   /* tokens a second; 0: no limit */
	_Atomic uint64_t burst_ns; /* as time of the rate */
	_Atomic uint64_t paid_ns;
};

/* The tokens that one thread has taken and not yet spent, as time of the rate. Thread: that one. */
struct purse {
	uint64_t credit_ns;
};

/* Control. Sets the rate: at most BUCKET_RATE_MAX, or 0. A debt stays, in tokens, at the new
 * rate. */
void bucket_set(struct bucket *bucket, uint64_t rate, uint64_t burst_ns, uint64_t now_ns);
/* The cost of tokens (at most 2^32), as time of the rate. */
uint64_t bucket_cost(const struct bucket *bucket, uint64_t n_tokens);
/* The time of the rate that a thread takes at once. */
uint64_t bucket_batch(const struct bucket *bucket);
/* 0: the purse has at least cost_ns; if it had less, the thread took at least batch_ns from the
 * bucket. Otherwise the time to wait before the next try. */
uint64_t bucket_fill(struct bucket *bucket, struct purse *purse, uint64_t cost_ns,
		     uint64_t batch_ns, uint64_t now_ns);
/* Spends cost_ns after bucket_fill returned 0 for it. */
void bucket_spend(struct purse *purse, uint64_t cost_ns);
