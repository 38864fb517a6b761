/* SPDX-License-Identifier: BSD-3-Clause */
/* See defect.h. */
#include <stdio.h>

#include "target/association/connection_impl.h"
#include "target/association/defect.h"
#include "target/engine/record/about.h"
#include "target/engine/record/capsules.h"
#include "target/engine/record/controller.h"
#include "transport/wire/strings.h"

enum {
	DEFECTS_BURST = 5,
};

/* Its portal always; its host once Connect has succeeded. */
static struct log_about about_of(const struct connection *c)
{
	return c->controller ? *CONTROLLER_ABOUT(c->controller)
			     : *LOG_ABOUT(.portal = c->portal->name);
}

void defect_log(const struct connection *c, const char *what)
{
	struct log_about about = about_of(c);
	struct target *target = c->target;

	target->n_defects++;
	if (!log_limit_pass(&target->defects, DEFECTS_BURST))
		return;
	log_err_about(
		&about,
		"host %s (%s): queue %u: a defect of rblkd: %s; this queue ends, others go on: please report this line and those that follow",
		c->controller ? hostnqn_label(c->controller->hostnqn) : "not known yet", c->remote,
		c->queue->qid, what);
	capsules_log(c->queue->capsules, NULL);
}

void defect_log_stranded(const struct connection *c)
{
	struct log_about about = about_of(c);

	log_err_about(
		&about,
		"%s: queue %u: after a defect of rblkd commands of it do not come back: its memory stays until rblkd is restarted, which should be soon",
		c->remote, c->queue->qid);
}

bool defect_has_all_stranded(const struct target *target)
{
	return target->n_connections == target->n_stranded;
}
