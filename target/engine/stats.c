/* SPDX-License-Identifier: BSD-3-Clause */
/* Counting a command on its poller; adding up on the control thread. See stats.h. */
#include <string.h>

#include "target/engine/queue.h"
#include "target/engine/request.h"
#include "target/engine/response.h"
#include "target/engine/capsules.h"
#include "target/engine/slow.h"
#include "target/engine/stats.h"

/* ---- poller --------------------------------------------------------------------------------- */

__attribute__((noinline)) void timing_stage(struct timing *t)
{
	t->mark = t->started;
	t->stage = STAGE_RECEIVE;
	memset(t->spent, 0, sizeof(t->spent));
}

__attribute__((noinline)) void timing_next(struct timing *t, enum stats_stage next)
{
	uint64_t now = ticks_now();

	t->spent[t->stage] += ticks_between(t->mark, now);
	t->mark = now;
	t->stage = next;
}

static enum stats_class class_of(uint8_t opcode)
{
	return opcode < STATS_CLASSES ? (enum stats_class)opcode : STATS_OTHER;
}

static void count_stages(struct io_stats *stats, const struct timing *t)
{
	counter_add(&stats->n_sampled, 1);
	for (unsigned i = 0; i < STAGES; i++)
		counter_add(&stats->stage_ns[i], ticks_to_ns(t->spent[i]));
}

/* What there is not of every command. */
__attribute__((noinline)) static void count_rest(const struct request *r, struct io_stats *stats)
{
	if (r->status != NVME_OK)
		counter_add(&stats->n_errors, 1);
	if (r->timing.is_staged)
		count_stages(stats, &r->timing);
}

static inline void count(struct io_stats *stats, unsigned step, uint64_t ns)
{
	counter_add(&stats->counts[step], 1);
	counter_add(&stats->sum_ns, ns);
}

void stats_answered(struct request *r)
{
	struct queue *queue = r->queue;
	enum stats_class class = class_of(r->sqe.opcode);
	struct io_stats *mine = &queue->io[class], *theirs = NULL;
	uint64_t ticks, ns;
	unsigned step;

	ticks = ticks_between(r->timing.started, ticks_now());
	capsule_answered(r->capsule, r->timing.started, r->status, ticks);
	/* Admin commands may wait for hours, and are no load. */
	if (queue->qid == 0 || r->sqe.opcode == NVME_FABRICS)
		return;
	ns = ticks_to_ns(ticks);
	step = stats_step(ns);
	count(mine, step, ns);
	if (r->ns) {
		theirs = &r->counters->stats->io[class];
		count(theirs, step, ns);
	}
	if (__builtin_expect(!(r->timing.is_staged || r->status != NVME_OK), 1))
		return;
	timing_enter(&r->timing, STAGE_SEND);
	if (r->timing.is_staged &&
	    ticks >= atomic_load_explicit(&queue->target->slow_ticks, memory_order_relaxed))
		slow_answered(r, ns);
	count_rest(r, mine);
	if (theirs)
		count_rest(r, theirs);
}

__attribute__((noinline)) void stats_sent(struct response *response)
{
	struct queue *queue = response->queue;
	uint64_t ns = ticks_to_ns(ticks_between(response->timed_from, ticks_now()));
	struct namespace_stats *stats = response->counters->stats;

	response->timed_from = 0;
	counter_add(&queue->io[STATS_READ].stage_ns[STAGE_SEND], ns);
	counter_add(&stats->io[STATS_READ].stage_ns[STAGE_SEND], ns);
}

/* ---- control -------------------------------------------------------------------------------- */

void io_stats_merge(struct io_stats *into, const struct io_stats *from)
{
	into->n_errors += counter_get(&from->n_errors);
	into->sum_ns += counter_get(&from->sum_ns);
	into->n_sampled += counter_get(&from->n_sampled);
	for (unsigned i = 0; i < STAGES; i++)
		into->stage_ns[i] += counter_get(&from->stage_ns[i]);
	for (unsigned i = 0; i < STATS_STEPS; i++)
		into->counts[i] += counter_get(&from->counts[i]);
}

uint64_t io_stats_count(const struct io_stats *stats)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < STATS_STEPS; i++)
		n += stats->counts[i];
	return n;
}

void io_stats_histogram(const struct io_stats *stats, struct histogram *ret_histogram)
{
	*ret_histogram = (struct histogram){.sum_ns = stats->sum_ns};
	for (unsigned i = 0; i < STATS_STEPS; i++)
		histogram_add_step(ret_histogram, STATS_FIRST_STEP + i, stats->counts[i]);
}

void namespace_sum(const struct target *target, const struct namespace *ns,
		   struct namespace_counters *ret_counters, struct namespace_stats *ret_stats)
{
	*ret_counters = (struct namespace_counters){0};
	memset(ret_stats, 0, sizeof(*ret_stats));
	for (unsigned i = 0; i < target->n_pollers; i++) {
		const struct namespace_counters *c = &ns->counters[i];

		ret_counters->n_in_flight += counter_get(&c->n_in_flight);
		ret_counters->n_reads += counter_get(&c->n_reads);
		ret_counters->n_writes += counter_get(&c->n_writes);
		ret_counters->read_blocks += counter_get(&c->read_blocks);
		ret_counters->written_blocks += counter_get(&c->written_blocks);
		ret_counters->n_flushes += counter_get(&c->n_flushes);
		ret_counters->n_errors += counter_get(&c->n_errors);
		ret_counters->n_media_errors += counter_get(&c->n_media_errors);
		for (unsigned j = 0; j < STATS_CLASSES; j++)
			io_stats_merge(&ret_stats->io[j], &ns->stats[i].io[j]);
	}
}

const char *stats_class_name(enum stats_class class)
{
	static const char *const names[] = {
		[STATS_READ] = "read", [STATS_WRITE] = "write", [STATS_OTHER] = "other"};

	return names[class];
}

const char *stats_stage_name(enum stats_stage stage)
{
	static const char *const names[] = {[STAGE_RECEIVE] = "receive",
					    [STAGE_FETCH] = "fetch",
					    [STAGE_BACKEND] = "backend",
					    [STAGE_SEND] = "send"};

	return names[stage];
}
