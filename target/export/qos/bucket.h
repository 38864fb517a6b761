/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rate that several threads keep together: so many tokens a second. Pure but for its atomics; the
 * clock is the caller's.
 *
 * The bucket is the time until which its tokens are paid for. A thread that finds it in the past
 * takes what it needs, or a batch, into a purse of its own, and moves it on; so only one command in
 * a batch touches what threads share. It may move into the future by one such step, and all threads
 * then wait until it is past: in the long run the rate is kept exactly. What is not used is worth a
 * burst.
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

/* rate: at most 10^12, or 0. What is owed at the rate before is owed at the new one, in tokens. */
void bucket_set(struct bucket *bucket, uint64_t rate, uint64_t burst_ns, uint64_t now_ns);
/* What so many tokens (at most 2^32) cost: time of the rate. */
uint64_t bucket_cost(const struct bucket *bucket, uint64_t n_tokens);
/* How much of the rate's time is taken at once. */
uint64_t bucket_batch(const struct bucket *bucket);
/* 0: the purse has enough for so much; if it had not, at least batch_ns was taken. Else how long to
 * wait before the next try. */
uint64_t bucket_fill(struct bucket *bucket, struct purse *purse, uint64_t cost_ns,
		     uint64_t batch_ns, uint64_t now_ns);
/* After bucket_fill returned 0 for so much. */
void bucket_spend(struct purse *purse, uint64_t cost_ns);
