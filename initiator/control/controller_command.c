/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/states.h"
#include "initiator/control/controller_command.h"
#include "initiator/control/controller_impl.h"
#include "initiator/control/errors.h"

#define ADMIN_TIMEOUT_NS (10 * NSEC_PER_SEC)

#define ANYWHERE_DOWN	    (STATE_TO(CTRL_DOWN) | STATE_TO(CTRL_STOPPING))
#define RULE(s, name, next) [s] = {name, (next) | ANYWHERE_DOWN}

static const struct state_rule rules[] = {
	[CTRL_IDLE] = {"idle", STATE_TO(CTRL_RESOLVING)},
	RULE(CTRL_RESOLVING, "resolving", STATE_TO(CTRL_CONNECTING)),
	RULE(CTRL_CONNECTING, "connecting", STATE_TO(CTRL_SENDING_CONNECT)),
	RULE(CTRL_SENDING_CONNECT, "connect command",
	     STATE_TO(CTRL_AUTHENTICATING) | STATE_TO(CTRL_READING_CAP)),
	RULE(CTRL_AUTHENTICATING, "authenticating", STATE_TO(CTRL_READING_CAP)),
	RULE(CTRL_READING_CAP, "reading capabilities", STATE_TO(CTRL_DISABLING)),
	RULE(CTRL_DISABLING, "disabling", STATE_TO(CTRL_WAITING_DISABLED)),
	RULE(CTRL_WAITING_DISABLED, "waiting for disabled", STATE_TO(CTRL_ENABLING)),
	RULE(CTRL_ENABLING, "enabling", STATE_TO(CTRL_WAITING_READY)),
	RULE(CTRL_WAITING_READY, "waiting for ready", STATE_TO(CTRL_IDENTIFYING_CONTROLLER)),
	RULE(CTRL_IDENTIFYING_CONTROLLER, "identifying the controller",
	     STATE_TO(CTRL_IDENTIFYING_LIMITS) | STATE_TO(CTRL_SETTING_EVENTS) |
		     STATE_TO(CTRL_LIVE)),
	RULE(CTRL_IDENTIFYING_LIMITS, "identifying limits",
	     STATE_TO(CTRL_SETTING_QUEUES) | STATE_TO(CTRL_LIVE)),
	RULE(CTRL_SETTING_QUEUES, "asking for queues", STATE_TO(CTRL_SETTING_EVENTS)),
	RULE(CTRL_SETTING_EVENTS, "asking for events",
	     STATE_TO(CTRL_IDENTIFYING_IDS) | STATE_TO(CTRL_LIVE)),
	RULE(CTRL_IDENTIFYING_IDS, "identifying the namespace",
	     STATE_TO(CTRL_IDENTIFYING_NAMESPACE) | STATE_TO(CTRL_LISTING_NAMESPACES)),
	RULE(CTRL_IDENTIFYING_NAMESPACE, "identifying the namespace",
	     STATE_TO(CTRL_READING_SMART) | STATE_TO(CTRL_LISTING_NAMESPACES)),
	RULE(CTRL_READING_SMART, "reading the SMART log",
	     STATE_TO(CTRL_READING_ANA) | STATE_TO(CTRL_LIVE)),
	RULE(CTRL_READING_ANA, "reading the ANA groups", STATE_TO(CTRL_LIVE)),
	RULE(CTRL_LISTING_NAMESPACES, "listing namespaces", 0),
	RULE(CTRL_LIVE, "live", STATE_TO(CTRL_SHUTTING_DOWN)),
	RULE(CTRL_SHUTTING_DOWN, "shutting down", STATE_TO(CTRL_WAITING_SHUT_DOWN)),
	RULE(CTRL_WAITING_SHUT_DOWN, "waiting for shutdown", 0),
	[CTRL_DOWN] = {"down", STATE_TO(CTRL_STOPPING)},
	[CTRL_STOPPING] = {"stopping", STATE_TO(CTRL_IDLE)},
};

const char *controller_state_name(const struct controller *c)
{
	return rules[c->state].name;
}

void controller_move(struct controller *c, enum controller_state next)
{
	states_move("controller", rules, &c->state, next);
}

/* ---- going down ---- */

void controller_fail(struct controller *c)
{
	if (!controller_is_up(c))
		return;
	controller_move(c, CTRL_DOWN);
	loop_timer_stop(&c->timer);
	loop_defer(c->loop, &c->down_call);
}

bool controller_has_refused(struct controller *c)
{
	if (c->state != CTRL_AUTHENTICATING || c->auth->failure == AUTH_HOST_OK)
		return false;
	error_from_auth(&c->error, c->config, c->auth->failure, c->auth->explanation);
	return true;
}

static void set_connection_error(struct controller *c, bool is_timeout, const char *reason)
{
	char where[ADDR_STRING_MAX];

	addr_format(where, &c->config->address);
	if (c->state == CTRL_LIVE)
		error_set(&c->error, EXIT_UNREACHABLE, NULL, "lost the connection to %s: %s", where,
			  reason);
	else
		error_set(&c->error, is_timeout ? EXIT_UNREACHABLE : EXIT_FAILED, NULL,
			  "cannot connect to %s: %s (while %s)", where, reason,
			  controller_state_name(c));
}

void controller_fail_connection(struct controller *c, bool is_timeout, const char *reason)
{
	if (!controller_is_up(c))
		return;
	if (c->state == CTRL_SENDING_CONNECT)
		c->cause = CAUSE_UNANSWERED;
	if (!controller_has_refused(c))
		set_connection_error(c, is_timeout, reason);
	controller_fail(c);
}

/* ---- commands ---- */

void controller_submit(struct controller *c, struct admin_command *command)
{
	command->context = c;
	if (!command->timeout_ns)
		command->timeout_ns = ADMIN_TIMEOUT_NS;
	if (admin_submit(&c->admin, command) < 0)
		controller_fail_connection(c, false, "the admin queue is full");
}

struct admin_command controller_identify(const struct controller *c, enum nvme_cns cns,
					 uint32_t nsid)
{
	return (struct admin_command){
		.sqe = {.opcode = NVME_ADMIN_IDENTIFY,
			.nsid = put_le32(nsid),
			.cdw10 = put_le32(cns)},
		.n_read = NVME_IDENTIFY_BYTES,
	};
}

struct admin_command controller_get_log(enum nvme_log log, uint64_t offset, uint32_t n_bytes)
{
	uint32_t n_dwords = n_bytes / 4 - 1; /* 0's based */

	return (struct admin_command){
		.sqe = {.opcode = NVME_ADMIN_GET_LOG_PAGE,
			.nsid = put_le32(NVME_NSID_ALL),
			.cdw10 = put_le32(log | n_dwords << 16),
			.cdw11 = put_le32(n_dwords >> 16),
			.cdw12 = put_le32((uint32_t)offset),
			.cdw13 = put_le32((uint32_t)(offset >> 32))},
		.n_read = n_bytes,
	};
}
