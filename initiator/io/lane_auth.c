/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange of an I/O lane, between its Connect command and its first I/O. I/O loop: the
 * computation takes some milliseconds and delays the I/O of this queue alone, which is held anyway.
 *
 * Messages go through a page of registered memory that the target may read and write while the
 * queue is attached; an incoming message is copied out before it is parsed.
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/states.h"
#include "initiator/io/lane_auth.h"
#include "initiator/io/lane_watch.h"
#include "initiator/io/slab.h"
#include "transport/qp_post.h"

static const struct state_rule rules[] = {
	[LANE_AUTH_IDLE] = {"idle", STATE_TO(LANE_AUTH_SENDING)},
	[LANE_AUTH_SENDING] = {"sending", STATE_TO(LANE_AUTH_RECEIVING) | STATE_TO(LANE_AUTH_IDLE)},
	[LANE_AUTH_RECEIVING] = {"receiving",
				 STATE_TO(LANE_AUTH_SENDING) | STATE_TO(LANE_AUTH_IDLE)},
};

static void do_step(struct lane *lane, enum auth_host_step step);

static void move_to(struct lane_auth *auth, enum lane_auth_state next)
{
	states_move("authentication of a queue", rules, &auth->state, next);
}

/* ---- control ------------------------------------------------------------------------------- */

int lane_auth_make(struct lane *lane, const struct domain *domain, struct error *error)
{
	struct lane_auth *auth = &lane->auth;

	lane_auth_unmake(lane);
	auth->keys = auth_alloc(sizeof(*auth->keys));
	auth->host = auth_alloc(sizeof(*auth->host));
	auth->memory = slab_map(AUTH_BUFFER_BYTES);
	error_set(error, EXIT_FAILED, NULL, "no memory for authentication");
	if (!auth->keys || !auth->host || !auth->memory)
		return -ENOMEM;
	return mr_open(domain, auth->memory, AUTH_BUFFER_BYTES, MR_REMOTE_BOTH, &auth->mr);
}

void lane_auth_unmake(struct lane *lane)
{
	struct lane_auth *auth = &lane->auth;

	mr_close(&auth->mr);
	if (auth->host)
		auth_host_reset(auth->host);
	auth_free(auth->host, sizeof(*auth->host));
	auth_free(auth->keys, sizeof(*auth->keys));
	slab_unmap(auth->memory, AUTH_BUFFER_BYTES);
	*auth = (struct lane_auth){0};
}

/* ---- I/O loop ------------------------------------------------------------------------------ */

static void end(struct lane *lane, enum auth_host_failure failure,
		enum nvmf_auth_failure explanation)
{
	struct lane_auth *auth = &lane->auth;

	if (lane_auth_is_running(auth))
		move_to(auth, LANE_AUTH_IDLE);
	auth->failure = failure;
	auth->explanation = explanation;
	if (auth->host)
		auth_host_reset(auth->host);
	auth->on_over(lane, failure == AUTH_HOST_OK ? NVME_OK : NVME_AUTH_REQUIRED);
}

static void send_command(struct lane *lane, enum auth_host_step step)
{
	struct lane_auth *auth = &lane->auth;
	struct command *command = command_take(&lane->table);
	struct nvme_sqe *sqe;
	struct sge sge;
	uint32_t n;

	check(command && qp_n_free(&lane->qp));
	sqe = &command->capsule->sqe;
	n = auth_host_fill_command(auth->host, step, sqe);
	memset(auth->memory, 0, AUTH_BUFFER_BYTES);
	if (step == AUTH_HOST_SEND)
		memcpy(auth->memory, auth->host->message, n);
	sqe->sgl.keyed.address = put_le64((uintptr_t)auth->memory);
	sqe->sgl.keyed.length = put_le24(n);
	sqe->sgl.keyed.key = put_le32(auth->mr.rkey);
	move_to(auth, step == AUTH_HOST_SEND ? LANE_AUTH_SENDING : LANE_AUTH_RECEIVING);
	command->send.done = command_on_sent;
	command->is_sending = true;
	command_start(&lane->table, command, clock_ns());
	sge = (struct sge){sqe, sizeof(*sqe), lane->table.mr.lkey};
	qp_send(&lane->qp, &command->send, &sge, 1, QP_SIGNALED, 0);
	lane_watch_timeout(lane);
}

static void do_step(struct lane *lane, enum auth_host_step step)
{
	struct auth_host *host = lane->auth.host;

	switch (step) {
	case AUTH_HOST_SEND:
	case AUTH_HOST_RECEIVE:
		send_command(lane, step);
		break;
	case AUTH_HOST_DONE:
		end(lane, AUTH_HOST_OK, NVMF_AUTH_OK);
		break;
	case AUTH_HOST_FAILED:
		end(lane, host->failure, host->explanation);
		break;
	}
}

void lane_auth_start(struct lane *lane, uint64_t connect_result, const char *hostnqn,
		     const char *subnqn, lane_auth_over *on_over)
{
	struct lane_auth *auth = &lane->auth;
	enum auth_host_failure failure;

	auth->on_over = on_over;
	if (!auth_host_is_asked(auth->keys, connect_result, &failure)) {
		end(lane, failure, NVMF_AUTH_OK);
		return;
	}
	do_step(lane, auth_host_begin(auth->host, auth->keys, hostnqn, subnqn));
}

void lane_auth_on_answer(struct lane *lane, enum nvme_status status)
{
	struct lane_auth *auth = &lane->auth;
	uint8_t copy[AUTH_BUFFER_BYTES];

	/* A refusal by this host's own check is not the target's refusal. */
	if (status != NVME_OK && auth->host->failure == AUTH_HOST_OK) {
		end(lane, AUTH_HOST_REFUSED, NVMF_AUTH_FAILED);
		return;
	}
	if (auth->state == LANE_AUTH_SENDING) {
		do_step(lane, auth_host_sent(auth->host));
		return;
	}
	memcpy(copy, auth->memory, sizeof(copy));
	do_step(lane, auth_host_take(auth->host, copy));
}
