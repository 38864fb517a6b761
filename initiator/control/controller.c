/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of one association; the drawing is in controller.h. Control loop only.
 *
 * Happy path, top to bottom in this file: resolve the address, make the admin queue,
 * connect (CM), Connect command, read CAP, disable, enable and wait for ready, identify
 * the controller, ask for queues, ask for events, identify the namespace, live. Each
 * state has one function that starts its work, and one that takes the outcome and goes
 * on.
 *
 * Failures: every one fills c->error and ends in controller_fail, which calls on_down
 * once. Nothing is tried twice here. The owner then calls controller_stop: disconnect,
 * drain the queue pair, undo everything, on_stopped.
 *
 * Invariants: conn exists in every state but IDLE and, for a moment, RESOLVING; the admin
 * queue from CONNECTING to STOPPING; the domain from CONNECTING until the owner closes
 * it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/states.h"
#include "initiator/control/connect.h"
#include "initiator/control/controller.h"
#include "initiator/control/controller_impl.h"
#include "initiator/control/errors.h"

enum {
	RESOLVE_MS = 3000,
};
#define CONNECT_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define ADMIN_TIMEOUT_NS   (10 * NSEC_PER_SEC)

#define ANYWHERE_DOWN	    STATE_TO(CTRL_STOPPING)
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
	     STATE_TO(CTRL_IDENTIFYING_LIMITS) | STATE_TO(CTRL_LIVE)),
	RULE(CTRL_IDENTIFYING_LIMITS, "identifying limits", STATE_TO(CTRL_SETTING_QUEUES)),
	RULE(CTRL_SETTING_QUEUES, "asking for queues", STATE_TO(CTRL_SETTING_EVENTS)),
	RULE(CTRL_SETTING_EVENTS, "asking for events", STATE_TO(CTRL_IDENTIFYING_IDS)),
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

static void report_down(struct loop_call *call)
{
	struct controller *c = container_of(call, struct controller, down_call);

	c->ops->on_down(c);
}

void controller_fail(struct controller *c)
{
	if (c->is_down || c->state == CTRL_STOPPING || c->state == CTRL_IDLE)
		return;
	c->is_down = true;
	loop_timer_stop(&c->timer);
	loop_defer(c->loop, &c->down_call);
}

static void say_connection(struct controller *c, bool is_timeout, const char *reason)
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
	if (c->is_down)
		return;
	c->is_unanswered = c->state == CTRL_SENDING_CONNECT;
	if (!controller_has_refused(c))
		say_connection(c, is_timeout, reason);
	controller_fail(c);
}

static void finish_stop(struct controller *c)
{
	cm_conn_destroy(c->conn);
	c->conn = NULL;
	controller_move(c, CTRL_IDLE);
	c->ops->on_stopped(c);
}

static void on_admin_stopped(struct admin *admin)
{
	finish_stop(admin->context);
}

static void report_stopped(struct loop_call *call)
{
	finish_stop(container_of(call, struct controller, stopped_call));
}

void controller_stop(struct controller *c)
{
	check(c->state != CTRL_IDLE);
	if (c->state == CTRL_STOPPING)
		return;
	loop_call_cancel(&c->down_call);
	loop_timer_stop(&c->timer);
	keep_alive_stop(c);
	async_event_stop(c);
	c->is_down = true;
	if (c->is_established)
		cm_disconnect(c->conn);
	if (c->has_admin)
		admin_stop(&c->admin);
	else
		loop_defer(c->loop, &c->stopped_call);
	controller_move(c, CTRL_STOPPING);
}

/*
 * A Connect command may get lost with nobody to blame (siw's accepting side does not see what comes before it has
 * finished accepting). Somebody who waits for the outcome of the first attempt sends it once more; not more often,
 * for a target may well hang.
 */
bool controller_may_ask_again(struct controller *c)
{
	if (!c->is_unanswered || c->has_asked_again)
		return false;
	c->has_asked_again = true;
	log_info("%s; trying once more", c->error.message);
	return true;
}

void controller_close_domain(struct controller *c)
{
	check(c->state == CTRL_IDLE);
	domain_close(&c->domain);
	c->domain = (struct domain){0};
	controller_release_keys(c);
}

/* ---- RESOLVING, CONNECTING ---- */

static void on_admin_failed(struct admin *admin, bool is_timeout, const char *reason)
{
	controller_fail_connection(admin->context, is_timeout, reason);
}

static void on_deadline(struct loop_timer *timer)
{
	struct controller *c = container_of(timer, struct controller, timer);

	error_from_cm(&c->error, &c->config->address,
		      &(struct cm_error){.failure = CM_UNREACHABLE});
	controller_fail(c);
}

static void connect_admin(struct controller *c)
{
	struct nvmf_cm_req req;
	int r;

	controller_move(c, CTRL_CONNECTING);
	r = domain_open(c->conn->device, &c->domain);
	if (r < 0) {
		error_set(&c->error, EXIT_FAILED, NULL, "%s: cannot make a protection domain: %s",
			  c->conn->device->name, strerror(-r));
		controller_fail(c);
		return;
	}
	if (admin_start(&c->admin, c->conn, &c->domain, &c->error) < 0) {
		controller_fail(c);
		return;
	}
	c->has_admin = true;
	connect_fill_private(&req, 0, NVMF_ADMIN_SQ_ENTRIES, NVMF_ADMIN_SQ_ENTRIES, 0);
	r = cm_connect(c->conn, &req, sizeof(req), c->conn->device->limits.max_rd_atom);
	if (r < 0) {
		error_from_cm(&c->error, &c->config->address,
			      &(struct cm_error){.failure = CM_CONNECT, .error = r});
		controller_fail(c);
	}
}

static void on_resolved(struct cm_conn *conn)
{
	struct controller *c = conn->context;

	if (c->state == CTRL_RESOLVING && !c->is_down)
		connect_admin(c);
}

static void on_established(struct cm_conn *conn, const void *private_data, size_t n)
{
	struct controller *c = conn->context;

	c->is_established = true;
	if (c->state != CTRL_CONNECTING || c->is_down)
		return;
	loop_timer_stop(&c->timer);
	if (connect_parse_private(private_data, n, &c->n_admin_recv) < 0) {
		controller_fail_connection(c, false, "its private data has an unknown format");
		return;
	}
	controller_send_connect(c);
}

static void on_cm_failed(struct cm_conn *conn, const struct cm_error *error)
{
	struct controller *c = conn->context;

	if (c->is_down)
		return;
	c->is_transient = error_cm_is_transient(error);
	error_from_cm(&c->error, &c->config->address, error);
	controller_fail(c);
}

static void on_disconnected(struct cm_conn *conn)
{
	controller_fail_connection(conn->context, false, error_of_disconnect(conn));
}

static const struct cm_conn_ops cm_ops = {
	.on_resolved = on_resolved,
	.on_established = on_established,
	.on_failed = on_cm_failed,
	.on_disconnected = on_disconnected,
};

void controller_start(struct controller *c)
{
	const union addr *source = &c->config->host_address;
	int r;

	check(c->state == CTRL_IDLE && !c->domain.pd);
	c->is_down = c->is_established = c->has_admin = false;
	c->is_permanent = c->is_missing = c->is_transient = c->is_unanswered = false;
	c->error = (struct error){0};
	c->ana_state = 0;
	controller_move(c, CTRL_RESOLVING);
	c->timer.on_expiry = on_deadline;
	loop_timer_start(c->loop, &c->timer, c->connect_timeout_ns);
	if (controller_load_keys(c) < 0) {
		controller_fail(c);
		return;
	}
	r = cm_resolve(c->cm, &c->config->address, source->sa.sa_family ? source : NULL, RESOLVE_MS,
		       &cm_ops, c, &c->conn);
	if (r < 0) {
		error_from_cm(&c->error, &c->config->address,
			      &(struct cm_error){.failure = CM_ADDRESS, .error = r});
		controller_fail(c);
	}
}

void controller_init(struct controller *c, struct loop *loop, struct cm *cm,
		     const struct volume_config *config, bool is_discovery,
		     const struct controller_ops *ops, void *context)
{
	*c = (struct controller){
		.loop = loop,
		.cm = cm,
		.config = config,
		.subnqn = is_discovery ? NVMF_DISCOVERY_NQN : config->subnqn,
		.is_discovery = is_discovery,
		.connect_timeout_ns = CONNECT_TIMEOUT_NS,
		.ops = ops,
		.context = context,
		.down_call = {.run = report_down},
		.stopped_call = {.run = report_stopped},
		.admin = {.loop = loop,
			  .on_failed = on_admin_failed,
			  .on_stopped = on_admin_stopped,
			  .context = c},
	};
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
