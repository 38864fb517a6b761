/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Happy path: the request completes -> Get Log Page 04h, which lists the changed
 * namespaces and unmasks the notice -> if ours is among them, Identify (descriptors, then
 * namespace) -> ops->on_namespace -> the next request. For ANA: Identify, for the group, then
 * Get Log Page 0Ch (ana_log.c), which unmasks the notice -> ops->on_ana -> the next request. For
 * persistent discovery: ops->on_discovery, which reads the log, and the next request. Control loop.
 *
 * A Persistent Internal Error is the target's wish for a new association, as when another process
 * takes over: the path is lost at once, and connects again.
 *
 * Failures: a target that refuses the request gets no second one. A target that completes
 * it without end cannot keep us busy: after the first within a second the next waits for
 * a second.
 */
#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "initiator/control/async_event.h"
#include "initiator/control/ana_log.h"
#include "initiator/control/controller_command.h"
#include "initiator/control/controller_impl.h"
#include "initiator/control/errors.h"
#include "transport/wire/strings.h"

static void submit(struct controller *c);

static void rearm(struct controller *c)
{
	struct async_event *ae = &c->async_event;
	uint64_t now = clock_ns(), since = now - ae->last_ns;

	if (!controller_is_up(c))
		return;
	ae->last_ns = now;
	if (since < NSEC_PER_SEC)
		loop_timer_start(c->loop, &ae->rearm, NSEC_PER_SEC);
	else
		submit(c);
}

static void on_ana(struct controller *c)
{
	if (c->ana_state != c->ana_log.state_before)
		c->ops->on_ana(c);
	if (controller_is_up(c))
		rearm(c);
}

/* A namespace that came back may be in another group: the group is read after either notice. */
static void look_at_path(struct controller *c)
{
	if (c->id.has_ana)
		ana_log_read(c, on_ana);
	else
		rearm(c);
}

static bool is_no_namespace(enum nvme_status status)
{
	return nvme_status_code(status) == NVME_INVALID_NSID;
}

static void on_identified(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct identify_namespace ns;
	const char *reason = NULL;

	if (answer->status == NVME_OK)
		reason = identify_parse_namespace(answer->data, &ns);
	if (reason) {
		log_warn("namespace %u of %s: %s", c->config->nsid, c->subnqn, reason);
	} else if (answer->status == NVME_OK ? !ns.n_blocks : is_no_namespace(answer->status)) {
		error_set(&c->error, EXIT_NOT_FOUND, NULL,
			  "target has removed namespace %u of '%.100s'", c->config->nsid,
			  c->subnqn);
		c->ops->on_gone(c);
	} else if (answer->status != NVME_OK) {
		log_warn("namespace %u of %s: %s", c->config->nsid, c->subnqn,
			 nvme_status_string(answer->status));
	} else {
		c->ns = ns;
		identify_merge_ids(&c->ids, &ns);
		c->ops->on_namespace(c);
	}
	if (c->state == CTRL_LIVE)
		look_at_path(c);
}

static void on_ids(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct admin_command command = controller_identify(c, NVME_CNS_NS, c->config->nsid);

	if (answer->status == NVME_OK)
		identify_parse_ids(answer->data, &c->ids);
	command.done = on_identified;
	controller_submit(c, &command);
}

static void on_log(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct admin_command command = controller_identify(c, NVME_CNS_NS_DESCS, c->config->nsid);

	if (answer->status != NVME_OK || !identify_list_has(answer->data, c->config->nsid)) {
		rearm(c);
		return;
	}
	command.done = on_ids;
	controller_submit(c, &command);
}

static void on_event(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct admin_command command = controller_get_log(NVME_LOG_CHANGED_NS, 0, ADMIN_DATA_BYTES);

	if (answer->status != NVME_OK) {
		log_debug("%s: asynchronous event request: %s", c->subnqn,
			  nvme_status_string(answer->status));
		return;
	}
	if ((uint32_t)answer->result == NVME_AER_PERSISTENT_ERROR) {
		c->cause = CAUSE_ASKED;
		controller_fail_connection(c, false,
					   "the target asks for a new one (persistent error)");
		return;
	}
	if ((uint32_t)answer->result == NVME_AER_ANA_CHANGED && c->id.has_ana) {
		command = controller_identify(c, NVME_CNS_NS, c->config->nsid);
		command.done = on_identified;
		controller_submit(c, &command);
		return;
	}
	if ((uint32_t)answer->result == NVME_AER_DISCOVERY_CHANGED && c->ops->on_discovery) {
		c->ops->on_discovery(c);
		rearm(c);
		return;
	}
	if (controller_is_discovery(c) || (uint32_t)answer->result != NVME_AER_NS_CHANGED) {
		rearm(c);
		return;
	}
	command.done = on_log;
	controller_submit(c, &command);
}

static void submit(struct controller *c)
{
	struct admin_command command = {
		.sqe = {.opcode = NVME_ADMIN_ASYNC_EVENT_REQUEST},
		.done = on_event,
		.context = c,
	};

	/* Events only make news come sooner: without a slot the controller goes on without them. */
	(void)admin_submit(&c->admin, &command);
}

static void on_rearm(struct loop_timer *timer)
{
	struct async_event *ae = container_of(timer, struct async_event, rearm);

	submit(container_of(ae, struct controller, async_event));
}

uint32_t async_event_mask(const struct controller *c)
{
	uint32_t wanted = NVME_OAES_NS_ATTR | (c->id.has_ana ? NVME_OAES_ANA : 0);

	if (controller_is_discovery(c))
		wanted = NVME_OAES_DISCOVERY;
	return c->id.async_events & wanted;
}

void async_event_start(struct controller *c)
{
	c->async_event = (struct async_event){.rearm = {.on_expiry = on_rearm}};
	if (async_event_mask(c))
		submit(c);
}

void async_event_stop(struct controller *c)
{
	loop_timer_stop(&c->async_event.rearm);
}
