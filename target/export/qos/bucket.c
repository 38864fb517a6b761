/* SPDX-License-Identifier: BSD-3-Clause */
/* See bucket.h. */
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "target/export/qos/bucket.h"

static uint64_t get(const _Atomic uint64_t *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

/* Tokens that are owed cost less time at a higher rate. Without this, the higher rate would wait as
 * long for them as the old one. */
static void rescale(struct bucket *bucket, uint64_t rate, uint64_t now_ns)
{
	uint64_t old = get(&bucket->rate), paid = get(&bucket->paid_ns), to;

	if (!old || old == rate)
		return;
	do {
		__uint128_t owed = paid > now_ns ? paid - now_ns : 0;

		if (!owed)
			return;
		to = now_ns + (rate ? (uint64_t)(owed * old / rate) : 0);
	} while (!atomic_compare_exchange_weak_explicit(
		&bucket->paid_ns, &paid, to, memory_order_relaxed, memory_order_relaxed));
}

void bucket_set(struct bucket *bucket, uint64_t rate, uint64_t burst_ns, uint64_t now_ns)
{
	check(rate <= BUCKET_RATE_MAX);
	rescale(bucket, rate, now_ns);
	atomic_store_explicit(&bucket->burst_ns, burst_ns, memory_order_relaxed);
	atomic_store_explicit(&bucket->rate, rate, memory_order_relaxed);
}

uint64_t bucket_cost(const struct bucket *bucket, uint64_t n_tokens)
{
	uint64_t rate = get(&bucket->rate);

	return rate ? n_tokens * NSEC_PER_SEC / rate : 0;
}

uint64_t bucket_batch(const struct bucket *bucket)
{
	return get(&bucket->burst_ns) / BUCKET_BATCHES;
}

uint64_t bucket_fill(struct bucket *bucket, struct purse *purse, uint64_t cost_ns,
		     uint64_t batch_ns, uint64_t now_ns)
{
	uint64_t burst_ns = get(&bucket->burst_ns), paid, from, batch;

	if (purse->credit_ns >= cost_ns)
		return 0;
	batch = MAX(cost_ns - purse->credit_ns, batch_ns);
	paid = get(&bucket->paid_ns);
	do {
		from = MAX(paid, now_ns > burst_ns ? now_ns - burst_ns : 0);
		if (from > now_ns)
			return from - now_ns;
	} while (!atomic_compare_exchange_weak_explicit(
		&bucket->paid_ns, &paid, from + batch, memory_order_relaxed, memory_order_relaxed));
	purse->credit_ns += batch;
	return 0;
}

void bucket_spend(struct purse *purse, uint64_t cost_ns)
{
	/* The rate may have changed since bucket_fill. */
	purse->credit_ns -= MIN(cost_ns, purse->credit_ns);
}
