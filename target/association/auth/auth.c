/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication Send and Receive. Poller of the queue; the slow part (Diffie-Hellman) runs on a
 * worker thread:
 *
 *   Send:    fetch the message -> EXECUTE -> control: its turn?
 *            -> worker: auth_session_take -> respond
 *   Receive: EXECUTE -> auth_session_give -> respond
 *
 * A wrong message is answered as the specification requires: the Send succeeds, and the host can
 * then read a Failure1. A host gets MAX_REFUSALS of them on a connection, and limits.auth_timeout
 * for its first proof. An authenticated host may authenticate again; if that fails, the queue
 * serves nothing until it succeeds.
 *
 * A peer without a key can make rblkd compute. So a connection may begin MAX_NEGOTIATIONS exchanges
 * without a proof, and a Send waits for its turn at the worker threads (turn.h).
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/rcu.h"
#include "target/association/auth/auth.h"
#include "target/association/auth/proven.h"
#include "target/association/auth/session.h"
#include "target/association/auth/turn.h"
#include "target/association/connection.h"
#include "target/association/host.h"
#include "target/engine/record/about.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/engine/queue/queue_state.h"
#include "target/engine/request/request_run.h"
#include "target/store/pool.h"
#include "transport/wire/strings.h"

enum {
	MAX_REFUSALS = 3,
	/* Each costs the computation of a key: one for each try, and one more. */
	MAX_NEGOTIATIONS = MAX_REFUSALS + 1,
	REFUSALS_BURST = 5,
};

/* ---- control ------------------------------------------------------------------------------- */

static void on_proven(struct loop_msg *msg)
{
	struct connection *c = container_of(msg, struct connection, proof.proven);

	loop_timer_stop(&c->timer);
	if (c->controller && connection_is_live(c))
		proven_admit(c);
}

void auth_on_timeout(struct connection *c)
{
	if (log_limit_pass(&c->target->refusals, REFUSALS_BURST))
		log_warn_about(
			CONTROLLER_ABOUT(c->controller),
			"host %s: refused at %s (%s), queue %u: it did not authenticate in time",
			hostnqn_label(c->controller->hostnqn), c->controller->subnqn, c->remote,
			c->queue->qid);
	connection_kill(c, "it did not authenticate in time");
}

int auth_attach(struct connection *c, const char *hostnqn, const char *subnqn)
{
	const struct snapshot *snapshot = atomic_load(&c->target->snapshot);

	if (!credentials_find(&snapshot->credentials, hostnqn))
		return 0;
	check(!c->proof.session && !c->proof.guest);
	c->proof.session = auth_alloc(sizeof(*c->proof.session));
	if (!c->proof.session)
		return -ENOMEM;
	c->proof.guest = host_take_guest(c->target, &c->cm->remote);
	if (!c->proof.guest) {
		auth_release(c);
		return -ENOMEM;
	}
	c->proof.session->hostnqn = hostnqn;
	c->proof.session->subnqn = subnqn;
	c->proof.proven.run = on_proven;
	return 0;
}

void auth_release(struct connection *c)
{
	check(c->proof.turn == PROOF_IDLE); /* guest->provers does not have it */
	host_give(c->proof.guest);
	c->proof.guest = NULL;
	if (c->proof.session)
		auth_session_reset(c->proof.session);
	auth_free(c->proof.session, sizeof(*c->proof.session));
	c->proof.session = NULL;
}

/* ---- poller: outcomes ---------------------------------------------------------------------- */

static void on_refused(struct connection *c)
{
	struct queue *queue = c->queue;
	const struct controller *controller = queue->controller;

	queue_set_access(queue, QUEUE_UNPROVEN, c->proof.guest);
	c->proof.n_refusals++;
	if (log_limit_pass(&queue->poller->auth_refusals, REFUSALS_BURST))
		log_warn_about(CONTROLLER_ABOUT(controller),
			       "host %s: refused at %s (%s), queue %u: authentication failed: %s",
			       hostnqn_label(controller->hostnqn), controller->subnqn, c->remote,
			       queue->qid, c->proof.session->why);
}

static void note_secrets(struct controller *controller, const struct auth_session *session)
{
	atomic_store(&controller->key_mark, session->key_mark);
	atomic_store(&controller->ctrl_key_mark, session->ctrl_key_mark);
}

static void on_success(struct connection *c)
{
	struct queue *queue = c->queue;
	struct controller *controller = queue->controller;

	if (queue->qid == 0)
		note_secrets(controller, c->proof.session);
	c->proof.n_refusals = c->proof.n_negotiations = 0;
	queue_set_access(queue, QUEUE_CONNECTED, controller->host);
	if (queue->qid == 0 && c->proof.session->has_used_second_key)
		log_info_about(CONTROLLER_ABOUT(controller),
			       "host %s: authenticated with the second key of its file",
			       hostnqn_label(controller->hostnqn));
	if (c->proof.is_proven_sent)
		return;
	c->proof.is_proven_sent = true;
	loop_send(&c->target->loop, &c->proof.proven);
}

/* ---- poller: Send -------------------------------------------------------------------------- */

/* Worker thread. */
static int take_message(struct backend_io *io)
{
	struct request *r = container_of(io, struct request, io);

	return (int)auth_session_take(r->queue->connection->proof.session, r->data, r->length);
}

static void on_taken(struct backend_io *io, int outcome)
{
	struct request *r = container_of(io, struct request, io);
	struct connection *c = r->queue->connection;

	check(c->proof.request == r);
	c->proof.request = NULL;
	turn_end(c);
	if (outcome == AUTH_REFUSED)
		on_refused(c);
	else if (outcome == AUTH_PROVEN)
		on_success(c);
	request_run(r, REQUEST_RESPOND);
}

/* The connection has its turn, or dies. */
static void on_turn(struct connection *c)
{
	struct queue *queue = c->queue;
	struct request *r = c->proof.request;

	r->io = (struct backend_io){.done = on_taken};
	if (queue_is_dying(queue)) {
		on_taken(&r->io, AUTH_GOES_ON);
		return;
	}
	if (auth_message_kind(r->data, r->length) == AUTH_KIND_NEGOTIATE)
		auth_session_begin(c->proof.session,
				   credentials_find(&rcu_get(&queue->target->snapshot)->credentials,
						    queue->controller->hostnqn));
	backend_run(queue->poller->backends, &r->io, take_message);
	request_run(r, REQUEST_BACKEND);
}

static enum request_state execute_send(struct request *r)
{
	struct queue *queue = r->queue;
	struct connection *c = queue->connection;

	if (c->proof.request)
		return request_end(r, NVME_COMMAND_SEQUENCE | NVME_DNR);
	if (c->proof.n_refusals >= MAX_REFUSALS) {
		queue_fail(queue, "%u failed authentications", c->proof.n_refusals);
		return request_end(r, NVME_AUTH_REQUIRED | NVME_DNR);
	}
	if (auth_message_kind(r->data, r->length) == AUTH_KIND_NEGOTIATE &&
	    c->proof.n_negotiations++ >= MAX_NEGOTIATIONS) {
		queue_fail(queue, "%d negotiations without a proof", MAX_NEGOTIATIONS);
		return request_end(r, NVME_AUTH_REQUIRED | NVME_DNR);
	}
	c->proof.request = r;
	turn_request(c, on_turn);
	return REQUEST_CONTROL;
}

/* ---- poller: Receive ----------------------------------------------------------------------- */

static enum request_state execute_receive(struct request *r)
{
	struct connection *c = r->queue->connection;
	enum auth_outcome outcome;
	int error;

	if (c->proof.request)
		return request_end(r, NVME_COMMAND_SEQUENCE | NVME_DNR);
	memset(r->data, 0, r->length);
	error = auth_session_give(c->proof.session, r->data, r->length, &outcome);
	if (outcome == AUTH_PROVEN)
		on_success(c);
	return request_end(r, error == 0	   ? NVME_OK
			      : error == -EMSGSIZE ? NVME_INVALID_FIELD | NVME_DNR
						   : NVME_COMMAND_SEQUENCE | NVME_DNR);
}

/* ---- the commands -------------------------------------------------------------------------- */

static enum nvme_status parse(struct request *r)
{
	struct nvmf_auth_cmd cmd;
	bool is_send;

	memcpy(&cmd, &r->sqe, sizeof(cmd));
	if (!r->queue->connection->proof.session)
		return NVME_INVALID_OPCODE | NVME_DNR;
	if (cmd.secp != NVMF_AUTH_SECP || cmd.spsp0 != NVMF_AUTH_SPSP ||
	    cmd.spsp1 != NVMF_AUTH_SPSP)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (get_le32(cmd.length) == 0 || get_le32(cmd.length) > AUTH_BUFFER_BYTES)
		return NVME_INVALID_FIELD | NVME_DNR;
	is_send = cmd.fctype == NVMF_AUTH_SEND;
	r->direction = is_send ? DIRECTION_H2C : DIRECTION_C2H;
	r->length = get_le32(cmd.length);
	return parse_check_sgl(r, true);
}

const struct nvme_command auth_send_command = {
	.opcode = NVMF_AUTH_SEND,
	.name = "Authentication Send",
	.parse = parse,
	.execute = execute_send,
	.flags = COMMAND_BEFORE_PROOF,
};

const struct nvme_command auth_receive_command = {
	.opcode = NVMF_AUTH_RECEIVE,
	.name = "Authentication Receive",
	.parse = parse,
	.execute = execute_receive,
	.flags = COMMAND_BEFORE_PROOF,
};
