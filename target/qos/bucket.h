/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rate that several threads keep together: so many tokens a second. Pure but for its atomics; the
 * clock is the caller's.
 *
 * The bucket is the time until which its tokens are paid for. Who finds it in the past takes what it
 * needs, or a batch, into a purse of its own thread, and moves it on; so only one command in a batch
 * touches what threads share. It may move into the future by one such step, and everybody then waits
 * until it is past: in the long run the rate is kept exactly. What is not used is worth a burst.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum {
	BUCKET_BATCHES = 32, /* of a burst */
};

struct bucket {
	/* Thread: any */
	_Atomic uint64_t rate;	   /* tokens a second; 0: no limit */
	_Atomic uint64_t burst_ns; /* of the rate */
	_Atomic uint64_t paid_ns;
};

/* What one thread has taken and not spent, as time of the rate. */
struct purse {
	uint64_t credit_ns;
};

/* rate: at most 10^12, or 0. */
void bucket_set(struct bucket *bucket, uint64_t rate, uint64_t burst_ns);
/* 0: the purse has enough for so many tokens (at most 2^32). Else how long to wait before the next try. */
uint64_t bucket_fill(struct bucket *bucket, struct purse *purse, uint64_t n_tokens,
		     uint64_t now_ns);
/* After bucket_fill returned 0 for so many. */
void bucket_spend(const struct bucket *bucket, struct purse *purse, uint64_t n_tokens);
