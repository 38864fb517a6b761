/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication Send and Receive. Poller of the queue; what takes long (Diffie-Hellman) on a worker
 * thread:
 *
 *   Send:    fetch the message -> EXECUTE -> control: its turn? -> worker: auth_session_take -> respond
 *   Receive: EXECUTE -> auth_session_give -> respond
 *
 * Messages that are wrong are answered as the specification wants it: the Send succeeds, and the
 * Failure1 is there for the host to read. Hosts get MAX_REFUSALS of them a connection, and the time
 * of limits.auth_timeout for their first proof. A host that is proven may prove itself again; if
 * that fails, the queue serves nothing until it succeeds.
 *
 * Hosts need not prove anything to make us compute. So a connection may begin MAX_NEGOTIATIONS
 * exchanges without a proof, and a Send waits for its turn at the worker threads (turn.h).
 */
#include <errno.h>
#include <string.h>

#include "base/rcu.h"
#include "target/association/auth/auth.h"
#include "target/association/auth/session.h"
#include "target/association/auth/turn.h"
#include "target/association/controller.h"
#include "target/association/host.h"
#include "target/association/member.h"
#include "target/engine/command_table.h"
#include "target/engine/parse.h"

enum {
	MAX_REFUSALS = 3,
	/* Each makes us compute a key: one for each try, and one more. */
	MAX_NEGOTIATIONS = MAX_REFUSALS + 1,
	REFUSALS_BURST = 5,
};

/* ---- control ------------------------------------------------------------------------------- */

static void on_proven(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, proven);

	loop_timer_stop(&queue->connect_timer);
	if (queue->member_of && queue->state == QUEUE_LIVE)
		member_on_proven(queue);
}

void auth_on_timeout(struct queue *queue)
{
	if (log_limit_pass(&queue->target->refusals, REFUSALS_BURST))
		log_warn("host %s: refused at %s (%s), queue %u: it did not authenticate in time",
			 hostnqn_label(queue->member_of->hostnqn), queue->member_of->subnqn,
			 queue->remote, queue->qid);
	queue_kill(queue, "it did not authenticate in time");
}

int auth_attach(struct queue *queue, const char *hostnqn, const char *subnqn)
{
	const struct snapshot *snapshot = atomic_load(&queue->target->snapshot);

	if (!credentials_find(&snapshot->credentials, hostnqn))
		return 0;
	queue->auth = auth_alloc(sizeof(*queue->auth));
	if (!queue->auth)
		return -ENOMEM;
	queue->proof.guest = host_take_guest(queue->target, &queue->conn->remote);
	if (!queue->proof.guest) {
		auth_release(queue);
		return -ENOMEM;
	}
	queue->auth->hostnqn = hostnqn;
	queue->auth->subnqn = subnqn;
	queue->proven.run = on_proven;
	return 0;
}

void auth_release(struct queue *queue)
{
	host_give(queue->proof.guest);
	queue->proof.guest = NULL;
	if (queue->auth)
		auth_session_reset(queue->auth);
	auth_free(queue->auth, sizeof(*queue->auth));
	queue->auth = NULL;
}

/* ---- poller: outcomes ---------------------------------------------------------------------- */

static void on_refused(struct queue *queue)
{
	const struct controller *controller = queue->controller;

	queue->is_unproven = true;
	queue->n_auth_refusals++;
	if (log_limit_pass(&queue->poller->auth_refusals, REFUSALS_BURST))
		log_warn("host %s: refused at %s (%s), queue %u: authentication failed: %s",
			 hostnqn_label(controller->hostnqn), controller->subnqn, queue->remote,
			 queue->qid, queue->auth->why);
}

static void on_success(struct queue *queue)
{
	const struct controller *controller = queue->controller;

	queue->n_auth_refusals = queue->proof.n_negotiations = 0;
	queue->is_unproven = false;
	if (queue->qid == 0 && queue->auth->has_used_second_key)
		log_info("host %s: authenticated with the second key of its file",
			 hostnqn_label(controller->hostnqn));
	if (queue->is_proof_told)
		return;
	queue->is_proof_told = true;
	loop_send(&queue->target->loop, &queue->proven);
}

/* ---- poller: Send -------------------------------------------------------------------------- */

/* On a worker thread. */
static int take_message(struct backend_io *io)
{
	struct request *r = container_of(io, struct request, io);

	return (int)auth_session_take(r->queue->auth, r->data, r->length);
}

static void on_taken(struct backend_io *io, int outcome)
{
	struct request *r = container_of(io, struct request, io);

	r->queue->is_auth_busy = false;
	turn_end(r->queue);
	if (outcome == AUTH_REFUSED)
		on_refused(r->queue);
	else if (outcome == AUTH_PROVEN)
		on_success(r->queue);
	request_run(r, REQUEST_RESPOND);
}

/* Its turn has come, or it dies. */
static void on_turn(struct queue *queue)
{
	struct request *r = queue->proof.request;

	r->io = (struct backend_io){.done = on_taken};
	if (queue->is_dying) {
		on_taken(&r->io, AUTH_GOES_ON);
		return;
	}
	if (auth_message_kind(r->data, r->length) == AUTH_KIND_NEGOTIATE)
		auth_session_begin(queue->auth,
				   credentials_find(&rcu_get(&queue->target->snapshot)->credentials,
						    queue->controller->hostnqn));
	backend_run(queue->poller->backends, &r->io, take_message);
	request_run(r, REQUEST_BACKEND);
}

static enum request_state execute_send(struct request *r)
{
	struct queue *queue = r->queue;

	if (queue->is_auth_busy)
		return request_end(r, NVME_COMMAND_SEQUENCE | NVME_DNR);
	if (queue->n_auth_refusals >= MAX_REFUSALS) {
		queue_fail(queue, "%u failed authentications", queue->n_auth_refusals);
		return request_end(r, NVME_AUTH_REQUIRED | NVME_DNR);
	}
	if (auth_message_kind(r->data, r->length) == AUTH_KIND_NEGOTIATE &&
	    queue->proof.n_negotiations++ >= MAX_NEGOTIATIONS) {
		queue_fail(queue, "%d negotiations without a proof", MAX_NEGOTIATIONS);
		return request_end(r, NVME_AUTH_REQUIRED | NVME_DNR);
	}
	queue->is_auth_busy = true;
	queue->proof.request = r;
	turn_ask(queue, on_turn);
	return REQUEST_CONTROL;
}

/* ---- poller: Receive ----------------------------------------------------------------------- */

static enum request_state execute_receive(struct request *r)
{
	struct queue *queue = r->queue;
	enum auth_outcome outcome;
	int error;

	if (queue->is_auth_busy)
		return request_end(r, NVME_COMMAND_SEQUENCE | NVME_DNR);
	memset(r->data, 0, r->length);
	error = auth_session_give(queue->auth, r->data, r->length, &outcome);
	if (outcome == AUTH_PROVEN)
		on_success(queue);
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
	if (!r->queue->auth)
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
