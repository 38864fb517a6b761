/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In the order of wire reference, section 9. Each state is a pair: a function that sends,
 * and the on_ function that takes the answer and goes to the next. A refusal ends the
 * attempt with words for the user; what is allowed to fail (limits, identifiers, events)
 * says so here.
 */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "initiator/control/ana_log.h"
#include "initiator/control/async_event.h"
#include "initiator/control/controller_auth.h"
#include "initiator/control/controller_command.h"
#include "initiator/control/controller_setup.h"
#include "initiator/control/keep_alive.h"
#include "initiator/control/power.h"
#include "initiator/io/connect.h"
#include "initiator/control/controller_impl.h"
#include "initiator/control/errors.h"

#define POLL_MIN_NS	 (1 * NSEC_PER_MSEC)
#define POLL_MAX_NS	 (100 * NSEC_PER_MSEC)
#define SHUTDOWN_NS	 (5 * NSEC_PER_SEC)
#define CC_DISABLE_VALUE (NVME_CC_ENABLE_VALUE & ~NVME_CC_EN)
#define VS_1_3		 0x00010300u

typedef void answer_fn(void *context, const struct admin_answer *answer);

/* A refusal without any special case. */
static bool is_ok(struct controller *c, const char *what, const struct admin_answer *answer)
{
	if (answer->status == NVME_OK)
		return true;
	error_from_status(&c->error, what, answer->status);
	controller_fail(c);
	return false;
}

static void fail_unusable(struct controller *c, const char *what, const char *reason)
{
	error_set(&c->error, EXIT_FAILED, NULL, "%s of '%s' cannot be used: %s", what, c->subnqn,
		  reason);
	controller_fail(c);
}

/* ---- properties ---- */

static void property_get(struct controller *c, uint32_t offset, bool is_8_bytes, answer_fn *done)
{
	struct nvmf_property_cmd cmd = {
		.opcode = NVME_FABRICS,
		.fctype = NVMF_PROPERTY_GET,
		.attrib = is_8_bytes,
		.offset = put_le32(offset),
	};
	struct admin_command command = {.done = done};

	memcpy(&command.sqe, &cmd, sizeof(cmd));
	controller_submit(c, &command);
}

static void set_cc(struct controller *c, uint32_t value, answer_fn *done)
{
	struct nvmf_property_cmd cmd = {
		.opcode = NVME_FABRICS,
		.fctype = NVMF_PROPERTY_SET,
		.offset = put_le32(NVME_PROP_CC),
		.value = put_le64(value),
	};
	struct admin_command command = {.done = done};

	memcpy(&command.sqe, &cmd, sizeof(cmd));
	controller_submit(c, &command);
}

/* Reads CSTS repeatedly, at growing intervals, until it has the value that the state waits for. */

static void on_csts(void *context, const struct admin_answer *answer);

static void poll_csts(struct loop_timer *timer)
{
	property_get(container_of(timer, struct controller, timer), NVME_PROP_CSTS, false, on_csts);
}

static void start_polling(struct controller *c, uint64_t limit_ns)
{
	c->poll_until_ns = clock_ns() + limit_ns;
	c->poll_interval_ns = POLL_MIN_NS;
	c->timer.on_expiry = poll_csts;
	property_get(c, NVME_PROP_CSTS, false, on_csts);
}

static void poll_again(struct controller *c)
{
	if (clock_ns() >= c->poll_until_ns) {
		if (c->state == CTRL_WAITING_SHUT_DOWN)
			c->on_shut_down(c);
		else
			controller_fail_connection(c, true, "the controller took too long");
		return;
	}
	loop_timer_start(c->loop, &c->timer, c->poll_interval_ns);
	c->poll_interval_ns = MIN(2 * c->poll_interval_ns, POLL_MAX_NS);
}

static void enable(struct controller *c);
static void identify_controller(struct controller *c);

static void on_csts(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	uint32_t csts = (uint32_t)answer->result;
	bool is_ready = csts & NVME_CSTS_RDY;

	if (!controller_is_up(c) || !is_ok(c, "Property Get of CSTS", answer))
		return;
	if (c->state == CTRL_WAITING_SHUT_DOWN) {
		if ((csts & NVME_CSTS_SHST_COMPLETE) || (csts & NVME_CSTS_CFS))
			c->on_shut_down(c);
		else
			poll_again(c);
		return;
	}
	if (csts & NVME_CSTS_CFS) {
		controller_fail_connection(c, false, "the controller reports a fatal status");
		return;
	}
	if (is_ready != (c->state == CTRL_WAITING_READY))
		poll_again(c);
	else if (is_ready)
		identify_controller(c);
	else
		enable(c);
}

/* CAP.TO is in half seconds. Some targets report 0. */
static uint64_t ready_limit_ns(const struct controller *c)
{
	uint64_t to = c->cap >> NVME_CAP_TO_SHIFT & 0xff;

	return MAX(to, 10u) * (NSEC_PER_SEC / 2) + NSEC_PER_SEC;
}

/* ---- SENDING_CONNECT, READING_CAP ---- */

static void on_connected(void *context, const struct admin_answer *answer);
static void read_cap(struct controller *c);
static void on_cap(void *context, const struct admin_answer *answer);

void controller_send_connect(struct controller *c)
{
	struct nvmf_connect_data data;
	struct admin_command command = {
		.write_data = &data,
		.n_write = sizeof(data),
		.done = on_connected,
	};
	uint64_t kato_ms = controller_keep_alive_ns(c) / NSEC_PER_MSEC;

	controller_move(c, CTRL_SENDING_CONNECT);
	connect_fill_data(&data, c->config->hostid, c->config->hostnqn, c->subnqn,
			  NVMF_CNTLID_DYNAMIC);
	connect_fill_command(&command.sqe, 0, NVMF_ADMIN_SQ_ENTRIES,
			     (uint32_t)MIN(kato_ms, (uint64_t)UINT32_MAX));
	controller_submit(c, &command);
}

static enum controller_cause cause_of_refusal(enum nvme_status status)
{
	if (error_connect_is_permanent(status))
		return CAUSE_PERMANENT;
	return nvme_status_code(status) == NVME_CONNECT_BUSY ? CAUSE_TRANSIENT : CAUSE_OTHER;
}

static void on_connected(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	if (answer->status != NVME_OK) {
		c->cause = cause_of_refusal(answer->status);
		error_from_connect(&c->error, c->config, 0, answer->status, answer->result);
		controller_fail(c);
		return;
	}
	c->cntlid = (uint16_t)answer->result;
	controller_authenticate(c, answer->result, read_cap);
}

static void read_cap(struct controller *c)
{
	controller_move(c, CTRL_READING_CAP);
	property_get(c, NVME_PROP_CAP, true, on_cap);
}

/* ---- DISABLING, ENABLING ---- */

static void on_disabled(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	if (!is_ok(c, "the disabling of the controller", answer))
		return;
	controller_move(c, CTRL_WAITING_DISABLED);
	start_polling(c, ready_limit_ns(c));
}

static void on_cap(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	if (!is_ok(c, "Property Get of CAP", answer))
		return;
	c->cap = answer->result;
	if (c->cap >> 48 & 0xf) {
		fail_unusable(c, "the controller", "its smallest memory page is above 4 KiB");
		return;
	}
	if (!NVME_CAP_MQES(c->cap)) {
		fail_unusable(c, "the controller", "its queues have one entry");
		return;
	}
	controller_move(c, CTRL_DISABLING);
	set_cc(c, CC_DISABLE_VALUE, on_disabled);
}

static void on_enabled(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	if (!is_ok(c, "the enabling of the controller", answer))
		return;
	controller_move(c, CTRL_WAITING_READY);
	start_polling(c, ready_limit_ns(c));
}

static void enable(struct controller *c)
{
	controller_move(c, CTRL_ENABLING);
	set_cc(c, NVME_CC_ENABLE_VALUE, on_enabled);
}

/* ---- IDENTIFYING_CONTROLLER, IDENTIFYING_LIMITS ---- */

static void become_live(struct controller *c);
static void set_events(struct controller *c);
static void set_queues(struct controller *c);

static void on_limits(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	/* A target older than NVMe 2.0 does not support this Identify. */
	c->limits = (struct identify_limits){0};
	if (answer->status == NVME_OK)
		identify_parse_limits(answer->data, &c->limits);
	if (c->config->nsid)
		set_queues(c);
	else
		become_live(c); /* an association for questions: ns_list.c */
}

static void on_controller(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	struct admin_command command = controller_identify(c, NVME_CNS_CSI_CTRL, 0);
	const char *reason;

	if (!is_ok(c, "Identify Controller", answer))
		return;
	reason = identify_parse_controller(answer->data, c->kind == CONTROLLER_KIND_IO, c->subnqn,
					   &c->id);
	if (!reason && c->id.cntlid != c->cntlid)
		reason = "it calls itself by another id than in its answer to Connect";
	if (!reason && c->kind == CONTROLLER_KIND_IO && c->config->keep_alive_ns &&
	    !c->id.has_keep_alive)
		reason = "it does not support Keep Alive";
	if (reason) {
		fail_unusable(c, "the controller", reason);
		return;
	}
	if (c->kind == CONTROLLER_KIND_DISCOVERY) {
		become_live(c);
		return;
	}
	if (c->kind == CONTROLLER_KIND_PERSISTENT_DISCOVERY) {
		set_events(c);
		return;
	}
	controller_move(c, CTRL_IDENTIFYING_LIMITS);
	command.done = on_limits;
	controller_submit(c, &command);
}

static void identify_controller(struct controller *c)
{
	struct admin_command command = controller_identify(c, NVME_CNS_CTRL, 0);

	controller_move(c, CTRL_IDENTIFYING_CONTROLLER);
	host_keep_alive_start(c); /* its time runs from the enabling of the controller */
	command.done = on_controller;
	controller_submit(c, &command);
}

/* ---- SETTING_QUEUES, SETTING_EVENTS ---- */

static void identify_ids(struct controller *c);

static void after_events(struct controller *c)
{
	if (controller_is_discovery(c))
		become_live(c);
	else
		identify_ids(c);
}

static void on_events(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	if (answer->status != NVME_OK)
		c->id.async_events = 0; /* the target has no notices */
	after_events(c);
}

static void set_events(struct controller *c)
{
	struct admin_command command = {
		.sqe = {.opcode = NVME_ADMIN_SET_FEATURES,
			.cdw10 = put_le32(NVME_FEAT_ASYNC_EVENT),
			.cdw11 = put_le32(async_event_mask(c))},
		.done = on_events,
	};

	controller_move(c, CTRL_SETTING_EVENTS);
	if (async_event_mask(c))
		controller_submit(c, &command);
	else
		after_events(c);
}

static void on_queues(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	unsigned n_sq = (unsigned)(answer->result & 0xffff) + 1;
	unsigned n_cq = (unsigned)(answer->result >> 16 & 0xffff) + 1;

	if (!is_ok(c, "Set Features (number of queues)", answer))
		return;
	c->n_queues_granted = MIN(MIN(n_sq, n_cq), c->config->n_queues);
	set_events(c);
}

static void set_queues(struct controller *c)
{
	uint32_t n = c->config->n_queues - 1;
	struct admin_command command = {
		.sqe = {.opcode = NVME_ADMIN_SET_FEATURES,
			.cdw10 = put_le32(NVME_FEAT_QUEUES),
			.cdw11 = put_le32(n | n << 16)},
		.done = on_queues,
	};

	controller_move(c, CTRL_SETTING_QUEUES);
	controller_submit(c, &command);
}

/* ---- IDENTIFYING_IDS, IDENTIFYING_NAMESPACE, READING_*, LISTING_NAMESPACES ---- */

static void on_list(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	char list[128] = "it does not say which it has";

	if (answer->status == NVME_OK)
		identify_format_list(answer->data, list, sizeof(list));
	c->cause = CAUSE_MISSING;
	error_set(&c->error, EXIT_NOT_FOUND, "name one of them with --ns",
		  "subsystem '%.100s' has no namespace %u for us (it has: %s)", c->subnqn,
		  c->config->nsid, list);
	controller_fail(c);
}

static void list_namespaces(struct controller *c)
{
	struct admin_command command = controller_identify(c, NVME_CNS_NS_LIST, 0);

	controller_move(c, CTRL_LISTING_NAMESPACES);
	command.done = on_list;
	controller_submit(c, &command);
}

static bool is_no_namespace(enum nvme_status status)
{
	return nvme_status_code(status) == NVME_INVALID_NSID;
}

static void read_path(struct controller *c)
{
	if (!c->id.has_ana) {
		become_live(c);
		return;
	}
	controller_move(c, CTRL_READING_ANA);
	ana_log_read(c, become_live);
}

static void on_namespace(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;
	const char *reason;

	if (is_no_namespace(answer->status)) {
		list_namespaces(c);
		return;
	}
	if (!is_ok(c, "Identify Namespace", answer))
		return;
	reason = identify_parse_namespace(answer->data, &c->ns);
	if (reason) {
		fail_unusable(c, "the namespace", reason);
		return;
	}
	if (!c->ns.n_blocks) {
		list_namespaces(c);
		return;
	}
	identify_merge_ids(&c->ids, &c->ns);
	controller_move(c, CTRL_READING_SMART);
	power_read(c, read_path);
}

static void identify_namespace(struct controller *c)
{
	struct admin_command command = controller_identify(c, NVME_CNS_NS, c->config->nsid);

	controller_move(c, CTRL_IDENTIFYING_NAMESPACE);
	command.done = on_namespace;
	controller_submit(c, &command);
}

static void on_ids(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	if (is_no_namespace(answer->status)) {
		list_namespaces(c);
		return;
	}
	if (answer->status == NVME_OK)
		identify_parse_ids(answer->data, &c->ids);
	identify_namespace(c);
}

static void identify_ids(struct controller *c)
{
	struct admin_command command = controller_identify(c, NVME_CNS_NS_DESCS, c->config->nsid);

	controller_move(c, CTRL_IDENTIFYING_IDS);
	c->ids = (struct identify_ids){0};
	if (c->id.version < VS_1_3) {
		identify_namespace(c);
		return;
	}
	command.done = on_ids;
	controller_submit(c, &command);
}

/* ---- LIVE and the normal end ---- */

static void become_live(struct controller *c)
{
	controller_move(c, CTRL_LIVE);
	if (c->kind != CONTROLLER_KIND_DISCOVERY && c->config->nsid)
		async_event_start(c);
	c->ops->on_live(c);
}

static void on_shutting_down(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	if (answer->status != NVME_OK) {
		c->on_shut_down(c);
		return;
	}
	controller_move(c, CTRL_WAITING_SHUT_DOWN);
	start_polling(c, SHUTDOWN_NS);
}

void controller_send_shut_down(struct controller *c, void (*done)(struct controller *c))
{
	c->on_shut_down = done;
	async_event_stop(c);
	controller_move(c, CTRL_SHUTTING_DOWN);
	set_cc(c, NVME_CC_ENABLE_VALUE | NVME_CC_SHN_NORMAL, on_shutting_down);
}
