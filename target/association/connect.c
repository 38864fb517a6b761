/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Connect command: the first on every queue, and what assigns a connection to a host.
 *
 *   poller: parse, fetch the 1024 bytes --> control: check, create or find the controller
 *   poller: respond, queue is live     <--
 *
 * The poller copies the host's data into the queue's connect_op and checks the names before control
 * sees it. Each error of a host has its status and, for Invalid Parameters, the offset of the wrong
 * field. An error that may pass in a moment is refused without DNR, because DNR makes hosts stop
 * reconnecting for good. Each refusal is one log line, rate limited.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/rcu.h"
#include "target/association/admission.h"
#include "target/association/auth/auth.h"
#include "target/association/connect.h"
#include "target/association/connection_impl.h"
#include "target/association/controller.h"
#include "target/association/fence.h"
#include "target/association/host_id.h"
#include "target/association/member.h"
#include "target/engine/record/capsules.h"
#include "target/engine/record/command_table.h"
#include "target/engine/request/parse.h"
#include "target/engine/record/portal.h"
#include "target/engine/queue/queue_state.h"
#include "target/engine/request/request_run.h"
#include "target/engine/request/response.h"
#include "transport/wire/strings.h"

enum {
	REFUSALS_BURST = 5,
};

#define AGAIN "the queue is connected already"
#define IN_DATA(field)                                                                             \
	((uint32_t)offsetof(struct nvmf_connect_data, field) | NVMF_CONNECT_IATTR_DATA)
#define IN_CMD(field) ((uint32_t)offsetof(struct nvmf_connect_cmd, field))

/* ---- poller: the command ------------------------------------------------------------------- */

static enum request_state execute(struct request *r);
static void on_connect(struct loop_msg *msg);

/* For a host whose name is not known yet. */
static enum nvme_status complain(const struct request *r, enum nvme_status status, const char *why)
{
	const struct queue *queue = r->queue;

	if (log_limit_pass(&queue->poller->complaints, REFUSALS_BURST))
		log_warn_about(LOG_ABOUT(.portal = queue->connection->portal->name),
			       "portal %s: %s: Connect refused: %s",
			       queue->connection->portal->name, queue->connection->remote, why);
	return status;
}

static enum nvme_status invalid_field(struct request *r, uint32_t where, const char *why)
{
	r->result = where;
	return complain(r, NVME_CONNECT_INVALID_PARAM | NVME_DNR, why);
}

static enum nvme_status parse(struct request *r)
{
	struct queue *queue = r->queue;
	struct connect_op *op = &queue->connection->connect;
	struct nvmf_connect_cmd cmd;

	memcpy(&cmd, &r->sqe, sizeof(cmd));
	if (queue->access != QUEUE_UNCONNECTED)
		return complain(r, NVME_COMMAND_SEQUENCE | NVME_DNR, AGAIN);
	if (get_le16(cmd.recfmt) != 0)
		return complain(r, NVME_CONNECT_FORMAT | NVME_DNR, "a record format that is not 0");
	if (get_le16(cmd.qid) != queue->qid)
		return invalid_field(r, IN_CMD(qid),
				     "not the queue that the connection was made for");
	op->qid = get_le16(cmd.qid);
	op->sqsize = get_le16(cmd.sqsize);
	op->cattr = cmd.cattr;
	op->kato_ms = get_le32(cmd.kato);
	if (op->sqsize == 0 || op->sqsize >= queue->n_entries ||
	    (op->qid && op->sqsize > controller_mqes(queue->target)))
		return invalid_field(r, IN_CMD(sqsize),
				     "more entries than the connection was made for");
	if (op->kato_ms > KATO_MAX_MS)
		op->kato_ms = KATO_MAX_MS;
	r->direction = DIRECTION_H2C;
	r->length = sizeof(struct nvmf_connect_data);
	return parse_check_sgl(r, true);
}

const struct nvme_command connect_command = {
	.opcode = NVMF_CONNECT,
	.name = "Connect",
	.parse = parse,
	.execute = execute,
	.flags = COMMAND_BEFORE_CONNECT,
};

static enum nvme_status wrong_nqn(struct request *r, uint32_t where, const char *whose,
				  const uint8_t field[NVMF_NQN_FIELD])
{
	char quoted[NVMF_NQN_FIELD], why[NVMF_NQN_FIELD + 64];

	snprintf(why, sizeof(why), "the %s's NQN is none: '%s'", whose,
		 log_quote(quoted, sizeof(quoted), field, NVMF_NQN_FIELD));
	return invalid_field(r, where, why);
}

static enum nvme_status take_names(struct request *r, struct connect_op *op,
				   const struct nvmf_connect_data *data)
{
	if (nqn_from_field(data->subnqn, sizeof(data->subnqn), op->subnqn) < 0)
		return wrong_nqn(r, IN_DATA(subnqn), "subsystem", data->subnqn);
	if (hostnqn_from_field(data->hostnqn, sizeof(data->hostnqn), op->hostnqn) < 0)
		return wrong_nqn(r, IN_DATA(hostnqn), "host", data->hostnqn);
	return NVME_OK;
}

static enum request_state execute(struct request *r)
{
	struct connect_op *op = &r->queue->connection->connect;
	struct nvmf_connect_data data;
	enum nvme_status status;

	if (r->queue->access != QUEUE_UNCONNECTED) /* a second Connect at once */
		return request_end(r, complain(r, NVME_COMMAND_SEQUENCE | NVME_DNR, AGAIN));
	check(r->length == sizeof(data)); /* parse() has set it */
	memcpy(&data, r->data, sizeof(data));
	memcpy(op->hostid, data.hostid, sizeof(op->hostid));
	op->cntlid = get_le16(data.cntlid);
	status = take_names(r, op, &data);
	if (status != NVME_OK)
		return request_end(r, status);
	op->request = r;
	op->msg.run = on_connect;
	queue_set_access(r->queue, QUEUE_CONNECTING, NULL);
	loop_send(&r->queue->target->loop, &op->msg);
	return REQUEST_CONTROL;
}

static void on_granted(struct connect_op *op)
{
	struct queue *queue = op->connection->queue;
	const struct proof *proof = &op->connection->proof;

	check(op->controller && !queue->controller);
	queue->controller = op->controller;
	queue->sqsize = op->sqsize;
	queue_set_answer(queue, QUEUE_NO_SQHD, op->cattr & NVMF_CATTR_DISABLE_SQFLOW);
	queue_set_access(queue, proof->session ? QUEUE_UNPROVEN : QUEUE_CONNECTED,
			 proof->session ? proof->guest : op->controller->host);
	queue->guard_client.host = op->controller->host;
	queue->guard_client.association = op->controller;
	capsules_name(queue->capsules, op->controller->id, op->controller->hostnqn);
	if (queue->qid == 0)
		controller_attach(op->controller, queue);
}

static void on_answer(struct loop_msg *msg)
{
	struct connect_op *op = container_of(msg, struct connect_op, msg);
	struct request *r = op->request;

	r->result = op->result;
	r->status = op->status;
	if (op->status == NVME_OK)
		on_granted(op);
	else
		queue_set_access(r->queue, QUEUE_UNCONNECTED, NULL);
	request_run(r, REQUEST_RESPOND);
}

/* ---- control: the decision ----------------------------------------------------------------- */

static void answer(struct connect_op *op)
{
	struct connection *c = op->connection;

	check(op->waits_for == FENCE_NOTHING);
	/* A refused host may retry, within another limit of time. */
	if (op->status != NVME_OK && c->state == CONNECTION_CONNECTING &&
	    !loop_timer_is_running(&c->timer))
		loop_timer_start(&c->target->loop, &c->timer,
				 c->target->config->limits.connect_timeout_ns);
	op->msg.run = on_answer;
	loop_send(&c->queue->poller->loop, &op->msg);
}

static void refuse(struct connect_op *op, enum nvme_status status, uint32_t result, const char *why)
{
	op->status = status;
	op->result = result;
	if (log_limit_pass(&op->connection->target->refusals, REFUSALS_BURST))
		log_warn_about(CONNECT_ABOUT(op), "host %s: refused at %s (%s): %s",
			       hostnqn_label(op->hostnqn), op->subnqn, op->connection->remote, why);
}

static bool may_see_subsystem(struct connect_op *op)
{
	struct target *target = op->connection->target;
	const struct snapshot *snapshot = atomic_load(&target->snapshot);
	const struct subsystem *subsystem = snapshot_find(snapshot, op->subnqn);

	if (!subsystem || !subsystem_is_on_portal(subsystem, op->connection->portal->index)) {
		refuse(op, NVME_CONNECT_INVALID_PARAM | NVME_DNR, IN_DATA(subnqn),
		       subsystem ? "the subsystem is not on this portal: see its key portals"
				 : "there is no such subsystem");
		return false;
	}
	if (!subsystem_allows(subsystem, op->hostnqn)) {
		refuse(op, NVME_CONNECT_INVALID_HOST | NVME_DNR, IN_DATA(hostnqn),
		       "the host is not allowed: add it to allow_hosts of the subsystem");
		return false;
	}
	return true;
}

/* False: refused. */
static bool has_own_identifier(struct connect_op *op)
{
	const struct target *target = op->connection->target;
	const struct host_id_claim claim = {target->config, op->subnqn, op->hostnqn, op->hostid};
	enum nvme_status status = NVME_CONNECT_INVALID_PARAM;
	char owner[NVMF_NQN_MAX + 1], why[HOST_ID_WHY];
	enum host_id_owner found = host_id_find_owner(target, &claim, owner);

	if (found == HOST_ID_OWN)
		return true;
	if (found != HOST_ID_CONNECTED_OTHER) /* that host may leave */
		status |= NVME_DNR;
	host_id_explain(found, owner, why);
	refuse(op, status, IN_DATA(hostid), why);
	return false;
}

/* False: refused. */
static bool connect_admin(struct connect_op *op, bool is_discovery)
{
	const struct target *target = op->connection->target;
	const char *why;

	if (op->cntlid != NVMF_CNTLID_DYNAMIC) {
		refuse(op, NVME_CONNECT_INVALID_PARAM | NVME_DNR, IN_DATA(cntlid),
		       "it asks for a static controller");
		return false;
	}
	why = is_discovery ? admission_refuse_discovery(target, &op->connection->cm->remote)
			   : member_refuse_association(target, op->hostnqn);
	if (why) {
		refuse(op, NVME_CONNECT_BUSY, 0, why);
		return false;
	}
	op->controller = controller_new(op);
	if (!op->controller)
		refuse(op, NVME_CONNECT_BUSY, 0, "out of memory or controller ids");
	return op->controller;
}

/* False: refused. */
static bool is_same_host(struct connect_op *op, const struct controller *controller)
{
	uint32_t where;

	if (strcmp(controller->hostnqn, op->hostnqn) != 0)
		where = IN_DATA(hostnqn);
	else if (memcmp(controller->hostid, op->hostid, sizeof(op->hostid)) != 0)
		where = IN_DATA(hostid);
	else
		return true;
	refuse(op, NVME_CONNECT_INVALID_PARAM | NVME_DNR, where,
	       "an I/O queue of another host's controller");
	return false;
}

/* False: refused. */
static bool connect_io(struct connect_op *op)
{
	struct target *target = op->connection->target;
	struct controller *controller = controller_find(target, op->subnqn, op->cntlid);
	struct connection *twin;
	const char *why;

	if (!controller) {
		refuse(op, NVME_CONNECT_INVALID_PARAM | NVME_DNR, IN_DATA(cntlid),
		       "an I/O queue of a controller that does not exist");
		return false;
	}
	if (!is_same_host(op, controller))
		return false;
	twin = member_find(controller, op->qid);
	if (controller_state(controller) == CONTROLLER_DYING ||
	    controller_state(controller) == CONTROLLER_RESETTING ||
	    (twin && connection_is_dying(twin))) {
		refuse(op, NVME_CONNECT_BUSY, 0, "the old queue is still being closed");
		return false;
	}
	if (twin) {
		refuse(op, NVME_COMMAND_SEQUENCE | NVME_DNR, 0, "the queue is connected already");
		return false;
	}
	if (controller->is_discovery || !atomic_load(&controller->is_ready) ||
	    op->qid > atomic_load(&controller->n_granted)) {
		refuse(op, NVME_CONNECT_INVALID_PARAM | NVME_DNR, IN_CMD(qid),
		       "an I/O queue that was not granted");
		return false;
	}
	op->controller = controller;
	why = member_refuse(controller);
	if (why)
		refuse(op, NVME_CONNECT_BUSY, 0, why);
	return !why;
}

/* False: refused. */
static bool decide(struct connect_op *op)
{
	bool is_discovery = snapshot_is_discovery(atomic_load(&op->connection->target->snapshot),
						  op->subnqn);

	if (op->connection->target->life == TARGET_STOPPING) {
		refuse(op, NVME_CONNECT_BUSY, 0, "rblkd is stopping");
		return false;
	}
	if (!is_discovery && !may_see_subsystem(op))
		return false;
	if (!is_discovery && op->qid == 0 && !has_own_identifier(op))
		return false;
	auth_release(op->connection); /* of an earlier Connect that was refused */
	if (!is_discovery && auth_attach(op->connection, op->hostnqn, op->subnqn) < 0) {
		refuse(op, NVME_CONNECT_BUSY, 0, "out of memory");
		return false;
	}
	return op->qid == 0 ? connect_admin(op, is_discovery) : connect_io(op);
}

/* The host has a key: a limit of time runs until it has authenticated. */
static void ask_for_proof(struct connect_op *op)
{
	struct connection *c = op->connection;

	op->result |= NVMF_CONNECT_ATR;
	loop_timer_start(&c->target->loop, &c->timer, c->target->config->limits.auth_timeout_ns);
}

static void grant(struct connect_op *op)
{
	op->result = op->controller->id;
	host_id_note_bound(op->controller);
	controller_add_connection(op->controller, op->connection);
	if (op->connection->proof.session)
		ask_for_proof(op);
}

/* Decides and answers, once no older association is in the way. */
static void decide_now(struct connect_op *op)
{
	if (decide(op))
		grant(op);
	answer(op);
}

void connect_on_release(struct connect_op *op)
{
	if (op->status == NVME_OK)
		decide_now(op);
	else
		answer(op);
}

/* Control receives a Connect command from a poller. */
static void on_connect(struct loop_msg *msg)
{
	struct connect_op *op = container_of(msg, struct connect_op, msg);
	struct connection *c = op->connection;

	op->controller = NULL;
	op->result = 0;
	op->status = NVME_OK;
	if (connection_is_dying(c)) {
		op->status = NVME_ABORTED_SQ_DELETION;
		answer(op);
		return;
	}
	/* A capsule may overtake the CM's own message. */
	cm_notify_established(c->cm);
	if ((op->qid == 0 || c->target->life == TARGET_STANDING_BY) && fence_hold(op))
		return;
	decide_now(op);
}
