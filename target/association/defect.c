/* SPDX-License-Identifier: BSD-3-Clause */
/* See defect.h. */
#include <stdio.h>

#include "base/clock.h"
#include "target/association/connection.h"
#include "target/association/controller.h"
#include "target/association/defect.h"
#include "target/association/fence.h"
#include "target/engine/capsules.h"

enum {
	DEFECTS_BURST = 5,
};

static void log_defect(const struct connection *c, const char *what)
{
	struct target *target = c->target;

	target->n_defects++;
	if (!log_limit_pass(&target->defects, DEFECTS_BURST))
		return;
	log_err("host %s (%s): queue %u: a defect of rblkd: %s; this queue ends, others go on: please report this line and those that follow",
		c->controller ? hostnqn_label(c->controller->hostnqn) : "not known yet", c->remote,
		c->queue->qid, what);
	capsules_log(c->queue->capsules, NULL);
}

static void on_strand(struct loop_timer *timer)
{
	struct connection *c = container_of(timer, struct connection, timer);

	connection_strand(c);
	c->target->n_stranded++;
	log_err("%s: queue %u: after a defect of rblkd commands of it do not come back: its memory stays until rblkd is restarted, which should be soon",
		c->remote, c->queue->qid);
	fence_check(c->target);
	c->target->check_stop(c->target);
}

static void end(struct connection *c, const char *what)
{
	log_defect(c, what);
	connection_kill(c, "a defect of rblkd");
	if (c->state != CONNECTION_DYING)
		return; /* already stranded */
	c->timer.on_expiry = on_strand;
	loop_timer_start(&c->target->loop, &c->timer, DEFECT_WAIT_S * NSEC_PER_SEC);
}

void defect_end(struct connection *c)
{
	end(c, c->queue->broken.what);
}

void defect_break(struct connection *c, const char *what)
{
	if (!connection_is_dying(c)) /* else its poller may be about to send the same */
		end(c, what);
}

void defect_forget(struct connection *c)
{
	loop_timer_stop(&c->timer);
	if (c->state == CONNECTION_STRANDED)
		c->target->n_stranded--;
}

bool defect_has_all_stranded(const struct target *target)
{
	return target->n_connections == target->n_stranded;
}
