/* SPDX-License-Identifier: BSD-3-Clause */
/* See response_stats.h. */
#include "base/bits.h"
#include "base/counter.h"
#include "target/engine/record/capsules.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/request.h"
#include "target/engine/request/response.h"
#include "target/engine/request/response_stats.h"
#include "target/engine/request/slow.h"
#include "target/engine/record/target.h"
#include "target/export/namespace.h"

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

/* noinline: errors and sampled commands are few. */
static NOINLINE void count_rest(const struct request *r, struct io_stats *stats)
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

void response_stats_answered(struct request *r)
{
	struct queue *queue = r->queue;
	enum stats_class class = class_of(r->sqe.opcode);
	struct io_stats *mine = &queue->io[class], *theirs = NULL;
	uint64_t ticks, ns;
	unsigned step;

	ticks = ticks_between(r->timing.started, ticks_now());
	capsule_answered(r->capsule, r->timing.started, r->status, ticks);
	/* Admin commands may wait for hours (AERs) and are no load. */
	if (queue->qid == 0 || r->sqe.opcode == NVME_FABRICS)
		return;
	ns = ticks_to_ns(ticks);
	step = stats_step(ns);
	count(mine, step, ns);
	if (r->ns) {
		theirs = &r->counters->stats->io[class];
		count(theirs, step, ns);
	}
	if (LIKELY(!(r->timing.is_staged || r->status != NVME_OK)))
		return;
	timing_enter(&r->timing, STAGE_SEND);
	if (r->timing.is_staged &&
	    ticks >= atomic_load_explicit(&queue->target->slow_ticks, memory_order_relaxed))
		slow_answered(r, ns);
	count_rest(r, mine);
	if (theirs)
		count_rest(r, theirs);
}

NOINLINE void response_stats_sent(struct response *response)
{
	struct queue *queue = response->queue;
	uint64_t ns = ticks_to_ns(ticks_between(response->timed_from, ticks_now()));
	struct namespace_stats *stats = response->counters->stats;

	response->timed_from = 0;
	counter_add(&queue->io[STATS_READ].stage_ns[STAGE_SEND], ns);
	counter_add(&stats->io[STATS_READ].stage_ns[STAGE_SEND], ns);
}
