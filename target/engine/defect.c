/* SPDX-License-Identifier: BSD-3-Clause */
/* See defect.h. */
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "target/engine/controller.h"
#include "target/engine/defect.h"
#include "target/engine/queue.h"
#include "target/engine/capsules.h"

enum {
	DEFECTS_BURST = 5,
};

/* ---- control -------------------------------------------------------------------------------- */

static void say(struct queue *queue)
{
	const struct controller *controller = queue->member_of;
	struct target *target = queue->target;

	target->n_defects++;
	if (!log_limit_pass(&target->defects, DEFECTS_BURST))
		return;
	log_err("host %s (%s): queue %u: a defect of rblkd: %s; this queue ends, others go on: please report this line and those that follow",
		controller ? hostnqn_label(controller->hostnqn) : "not known yet", queue->remote,
		queue->qid, queue->defect.what);
	capsules_log(queue, NULL);
}

static void on_strand(struct loop_timer *timer)
{
	struct queue *queue = container_of(timer, struct queue, connect_timer);
	struct target *target = queue->target;

	queue->defect.is_stranded = true;
	target->n_stranded++;
	log_err("%s: queue %u: after a defect of rblkd commands of it do not come back: its memory stays until rblkd is restarted, which should be soon",
		queue->remote, queue->qid);
	fence_check(target);
	target_check_stopped(target);
}

static void end(struct queue *queue)
{
	say(queue);
	queue_kill(queue, "a defect of rblkd");
	queue->connect_timer.on_expiry = on_strand;
	loop_timer_start(&queue->target->loop, &queue->connect_timer, DEFECT_WAIT_S * NSEC_PER_SEC);
}

static void on_told(struct loop_msg *msg)
{
	end(container_of(msg, struct queue, defect.told));
}

void queue_break_at_control(struct queue *queue, const char *what)
{
	if (queue->state == QUEUE_DYING)
		return; /* its poller may be about to tell the same */
	snprintf(queue->defect.what, sizeof(queue->defect.what), "%s", what);
	end(queue);
}

void defect_forget(struct queue *queue)
{
	loop_timer_stop(&queue->connect_timer);
	if (queue->defect.is_stranded)
		queue->target->n_stranded--;
}

bool defect_has_all_stranded(const struct target *target)
{
	return target->n_queues == target->n_stranded;
}

/* ---- poller --------------------------------------------------------------------------------- */

void queue_break(struct queue *queue, const char *fmt, ...)
{
	struct defect *defect = &queue->defect;
	va_list args;

	if (defect->is_told)
		return;
	va_start(args, fmt);
	vsnprintf(defect->what, sizeof(defect->what), fmt, args);
	va_end(args);
	/* Else they are kept already, and control may be reading them. */
	if (!queue->has_failed)
		capsules_keep_last(queue->capsules);
	queue->has_failed = queue->is_closed = defect->is_told = true;
	defect->told.run = on_told;
	loop_send(&queue->target->loop, &defect->told);
}
