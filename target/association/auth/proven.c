/* SPDX-License-Identifier: BSD-3-Clause */
/* See proven.h. */
#include "base/log.h"
#include "target/association/auth/proven.h"
#include "target/association/connection.h"
#include "target/association/controller.h"
#include "target/association/host_id.h"
#include "target/association/member.h"
#include "target/engine/record/about.h"
#include "transport/wire/strings.h"

enum {
	REFUSALS_BURST = 5,
};

/* During its authentication, other connections may have taken the last place. */
static const char *find_refusal(const struct controller *controller, uint16_t qid)
{
	if (qid == 0)
		return member_refuse_association(controller->target, controller->hostnqn);
	if (member_find(controller, qid))
		return "the queue is connected already";
	return member_refuse(controller);
}

void proven_admit(struct connection *c)
{
	struct controller *controller = c->controller;
	const char *why = find_refusal(controller, c->queue->qid);

	if (why) {
		if (log_limit_pass(&controller->target->refusals, REFUSALS_BURST))
			log_warn_about(CONTROLLER_ABOUT(controller),
				       "host %s: refused at %s (%s), queue %u: %s",
				       hostnqn_label(controller->hostnqn), controller->subnqn,
				       c->remote, c->queue->qid, why);
		connection_kill(c, why);
		return;
	}
	controller_admit(c);
	if (c->queue->qid == 0)
		host_id_check(controller); /* another may have been faster */
}
