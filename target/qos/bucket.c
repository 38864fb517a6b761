/* SPDX-License-Identifier: BSD-3-Clause */
/* See bucket.h. */
#include "base/bits.h"
#include "base/clock.h"
#include "target/qos/bucket.h"

static uint64_t get(const _Atomic uint64_t *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

void bucket_set(struct bucket *bucket, uint64_t rate, uint64_t burst_ns)
{
	atomic_store_explicit(&bucket->burst_ns, burst_ns, memory_order_relaxed);
	atomic_store_explicit(&bucket->rate, rate, memory_order_relaxed);
}

static uint64_t cost_of(uint64_t rate, uint64_t n_tokens)
{
	return rate ? n_tokens * NSEC_PER_SEC / rate : 0;
}

uint64_t bucket_fill(struct bucket *bucket, struct purse *purse, uint64_t n_tokens,
		     uint64_t now_ns)
{
	uint64_t cost = cost_of(get(&bucket->rate), n_tokens);
	uint64_t burst_ns = get(&bucket->burst_ns), paid, from, batch;

	if (purse->credit_ns >= cost)
		return 0;
	batch = MAX(cost - purse->credit_ns, burst_ns / BUCKET_BATCHES);
	paid = get(&bucket->paid_ns);
	do {
		from = MAX(paid, now_ns > burst_ns ? now_ns - burst_ns : 0);
		if (from > now_ns)
			return from - now_ns;
	} while (!atomic_compare_exchange_weak_explicit(
		&bucket->paid_ns, &paid, from + batch, memory_order_relaxed,
		memory_order_relaxed));
	purse->credit_ns += batch;
	return 0;
}

void bucket_spend(const struct bucket *bucket, struct purse *purse, uint64_t n_tokens)
{
	uint64_t cost = cost_of(get(&bucket->rate), n_tokens);

	/* The rate may have changed in between. */
	purse->credit_ns -= MIN(cost, purse->credit_ns);
}
