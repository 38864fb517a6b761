/* SPDX-License-Identifier: BSD-3-Clause */
/* See line.h. */
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "target/export/qos/line.h"

enum {
	LOOK_MIN_US = 50, /* between two tries while other lines are behind */
	LOOK_MAX_US = 2000,
};

#define NONE UINT64_MAX

static uint64_t get(const _Atomic uint64_t *p)
{
	return atomic_load_explicit(p, memory_order_relaxed);
}

static void set(_Atomic uint64_t *p, uint64_t value)
{
	atomic_store_explicit(p, value, memory_order_relaxed);
}

/* ---- rates ---------------------------------------------------------------------------------- */

static uint64_t next_id(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add(&last, 1) + 1;
}

void rate_init(struct rate *rate, struct line *lines)
{
	*rate = (struct rate){.id = next_id()};
	for (unsigned i = 0; i < POLLERS_MAX; i++) {
		set(&rate->first[i], NONE);
		lines[i] = (struct line){.rate = rate, .index = i, .id = rate->id};
		list_init(&lines[i].node);
		fair_init(&lines[i].waiters);
	}
}

void rate_set(struct rate *rate, uint64_t n, uint64_t burst_ns, uint64_t now_ns)
{
	if (get(&rate->bucket.rate) == n && get(&rate->bucket.burst_ns) == burst_ns)
		return;
	bucket_set(&rate->bucket, n, burst_ns, now_ns);
	set(&rate->id, next_id());
}

/* ---- tags ----------------------------------------------------------------------------------- */

static void publish(const struct line *line)
{
	const struct fair_entry *first = fair_first(&line->waiters);

	set(&line->rate->first[line->index], first ? first->tag : NONE);
}

/* After a change of the rate all flows begin anew. */
static void follow_rate(struct line *line)
{
	uint64_t id = get(&line->rate->id);

	if (line->id == id)
		return;
	line->id = id;
	fair_retag(&line->waiters, get(&line->rate->served));
	publish(line);
}

/* The index of the flow's tag for this rate, or PASTS. */
static unsigned find_past(const struct line *line, const struct flow_past *past)
{
	unsigned i = 0;

	while (i < PASTS && past->at[i].id != line->id)
		i++;
	return i;
}

/*
 * A flow that was here goes on from its tag. A new flow, or one that was away for long, begins
 * where the others are. A flow with few commands is away for moments all the time: it gets back
 * what it lost meanwhile, up to a quarter of a burst.
 */
static uint64_t tag_of(const struct line *line, const struct flow_past *past)
{
	uint64_t served = get(&line->rate->served);
	uint64_t moment = get(&line->rate->bucket.burst_ns) / 4;
	unsigned i = find_past(line, past);

	if (i == PASTS)
		return served;
	return MAX(past->at[i].tag, served > moment ? served - moment : 0);
}

/* A flow that meets more rates than it has room for forgets the oldest. */
static void remember(const struct line *line, struct flow_past *past, uint64_t tag)
{
	unsigned i = find_past(line, past);

	if (i == PASTS)
		i = past->n_forgotten++ % PASTS;
	past->at[i].id = line->id;
	past->at[i].tag = tag;
}

static void note_served(struct rate *rate, uint64_t tag)
{
	uint64_t served = get(&rate->served);

	while (served < tag &&
	       !atomic_compare_exchange_weak_explicit(&rate->served, &served, tag,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

/* How long this line leaves the bucket to lines that are behind it. */
static uint64_t find_lead(const struct line *line, uint64_t tag)
{
	const struct rate *rate = line->rate;
	uint64_t slack = bucket_batch(&rate->bucket), lead = 0;

	for (unsigned i = 0; i < POLLERS_MAX; i++) {
		uint64_t first = get(&rate->first[i]);

		if (i != line->index && first < tag && tag - first > slack)
			lead = MAX(lead, tag - first);
	}
	return lead ? MIN(MAX(lead, LOOK_MIN_US * NSEC_PER_USEC), LOOK_MAX_US * NSEC_PER_USEC) : 0;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* If no other flow waits, it takes a batch; otherwise each command would touch shared memory. */
static uint64_t pay(struct line *line, struct flow_past *past, uint64_t tag, uint64_t n_tokens,
		    uint64_t batch_ns, uint64_t now_ns)
{
	struct bucket *bucket = &line->rate->bucket;
	uint64_t cost = bucket_cost(bucket, n_tokens);
	uint64_t wait_ns;

	if (!cost) /* no limit */
		return 0;
	wait_ns = cost > line->purse.credit_ns ? find_lead(line, tag) : 0;
	if (!wait_ns)
		wait_ns = bucket_fill(bucket, &line->purse, cost, batch_ns, now_ns);
	if (wait_ns)
		return wait_ns;
	bucket_spend(&line->purse, cost);
	note_served(line->rate, tag);
	remember(line, past, tag + cost);
	return 0;
}

uint64_t line_pay_at_once(struct line *line, struct flow_past *past, uint64_t n_tokens,
			  uint64_t now_ns)
{
	const struct fair_entry *first;
	uint64_t tag;

	follow_rate(line);
	first = fair_first(&line->waiters);
	tag = tag_of(line, past);
	if (first && first->tag <= tag)
		return LINE_IS_LONG;
	return pay(line, past, tag, n_tokens, first ? 0 : bucket_batch(&line->rate->bucket),
		   now_ns);
}

uint64_t line_pay_first(struct line *line, struct flow_past *past, uint64_t n_tokens,
			uint64_t now_ns)
{
	uint64_t tag, wait_ns;

	follow_rate(line);
	check(!fair_is_empty(&line->waiters));
	tag = fair_first(&line->waiters)->tag;
	wait_ns = pay(line, past, tag, n_tokens, 0, now_ns);
	if (wait_ns)
		return wait_ns;
	fair_take_first(&line->waiters, tag + bucket_cost(&line->rate->bucket, n_tokens));
	publish(line);
	return 0;
}

void line_add(struct line *line, struct fair_entry *entry, const void *flow,
	      const struct flow_past *past)
{
	follow_rate(line);
	fair_add_tagged(&line->waiters, entry, flow, tag_of(line, past));
	publish(line);
}

void line_leave(struct line *line, struct fair_entry *entry)
{
	fair_remove(entry);
	publish(line);
}
