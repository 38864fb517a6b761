/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of slow commands (slow_io of the configuration). The poller that answers a slow command
 * logs one line: the command, and where its time went. A slow disk makes all its commands slow. So
 * each poller logs SLOW_BURST of them, then one a second with the number of those that it left out.
 */
#include <inttypes.h>

#include "base/units.h"
#include "target/engine/record/about.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/request_namespace.h"
#include "target/engine/request/slow.h"
#include "transport/wire/strings.h"

enum {
	SLOW_BURST = 5,
};

static const char *format_range(const struct request *r, char *buf, size_t n)
{
	if (r->command->flags & COMMAND_HAS_RANGE)
		snprintf(buf, n, ", LBA %" PRIu64 ", %u block%s", request_slba(r),
			 request_n_blocks(r), request_n_blocks(r) == 1 ? "" : "s");
	else
		*buf = '\0';
	return buf;
}

static const char *format_stages(const struct timing *t, char *buf, size_t n)
{
	size_t at = 0;

	*buf = '\0';
	for (unsigned i = 0; i < STAGES && at < n; i++) {
		char text[UNITS_MAX];
		int length = snprintf(buf + at, n - at, "%s%s %s", i ? ", " : "",
				      stats_stage_name(i),
				      units_format_duration(text, ticks_to_ns(t->spent[i])));

		at += length > 0 ? (size_t)length : 0;
	}
	return buf;
}

/* The stage covers all waiting. The time held by a rate is separate, because an administrator can
 * change the rate. */
static const char *format_rate(const struct request *r, char *buf, size_t n)
{
	char text[UNITS_MAX];

	if (r->held_ns)
		snprintf(buf, n, ", held by a rate (qos) for %s",
			 units_format_duration(text, r->held_ns));
	else
		*buf = '\0';
	return buf;
}

void slow_answered(const struct request *r, uint64_t ns)
{
	const struct queue *queue = r->queue;
	const struct controller *controller = queue->controller;
	struct log_limit *limit = &queue->poller->slow;
	char rate[64], range[64], stages[160], took[UNITS_MAX], unsaid[48] = "";
	const char *command = r->command->name;

	if (!log_limit_pass(limit, SLOW_BURST))
		return;
	if (limit->suppressed)
		snprintf(unsaid, sizeof(unsaid), "; %u more before", limit->suppressed);
	limit->suppressed = 0;
	log_warn_about(LOG_ABOUT(.subsystem = controller->subnqn, .nsid = get_le32(r->sqe.nsid),
				 .host = controller->hostnqn, .portal = controller->portal->name),
		       "host %s: slow: %s, %s/%u%s: %s (%s)%s, controller %u, queue %u%s%s%s",
		       hostnqn_label(controller->hostnqn), command ? command : "an unknown command",
		       controller->subnqn, get_le32(r->sqe.nsid),
		       format_range(r, range, sizeof(range)), units_format_duration(took, ns),
		       format_stages(&r->timing, stages, sizeof(stages)),
		       format_rate(r, rate, sizeof(rate)), controller->id, queue->qid,
		       r->status == NVME_OK ? "" : ", status ",
		       r->status == NVME_OK ? "" : nvme_status_string(r->status), unsaid);
}

void slow_set(struct target *target, uint64_t ns)
{
	atomic_store(&target->slow_ticks, ns ? ticks_from_ns(ns) : UINT64_MAX);
}
