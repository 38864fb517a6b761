/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O loop's side of a lane: its life on the loop, and its answers (lane_watch.c has its states
 * and its timeouts).
 *
 * Happy path: attach (poll the completion queue, post receives) -> start (send Connect)
 * -> its answer makes the lane live -> answers to commands come in by on_recv, which
 * checks each against the table of commands and hands it to io.c -> stop (drain, give
 * every command's I/O back to the queue) -> detached.
 *
 * Failures: whatever is wrong with the connection - a failed work request, an answer that
 * is short or names no command in flight, a command without answer for too long - goes
 * to lane_fail. It is not repaired here: control tears the association down and builds
 * another (connection.c, path.c). Until then the lane sends nothing and discards answers.
 *
 * Invariants: an I/O is in one place at a time (io_place.c), and in flight on one lane at most. Its
 * buffer was in a queue pair's hands only if that queue pair is this one,
 * and it leaves a dead one only after on_drained (reliability I2).
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/probe.h"
#include "initiator/io/choose.h"
#include "initiator/io/connect.h"
#include "initiator/io/io.h"
#include "initiator/io/io_status.h"
#include "initiator/io/lane.h"
#include "initiator/io/lane_auth.h"
#include "initiator/io/lane_watch.h"
#include "initiator/io/queue_impl.h"
#include "transport/qp_post.h"
#include "transport/recv_ring.h"

enum {
	CONNECT_BYTES = sizeof(struct nvmf_connect_data),
};

static void tell(struct lane *lane, struct loop_msg *msg)
{
	loop_send(lane->queue->control, msg);
}

/* ---- answers ---- */

/* Connect, and authentication where it is required, are over. */
static void on_connected(struct lane *lane, enum nvme_status status)
{
	lane->connect_status = status;
	io_before_held(lane->queue);
	if (status == NVME_OK && lane->state == LANE_STARTING)
		lane_move(lane, LANE_LIVE);
	tell(lane, &lane->connected_msg);
	io_pump(lane->queue);
}

/* To Connect, or to a command of the authentication that follows it. */
static void on_setup_answer(struct lane *lane, struct command *command, uint64_t result)
{
	const struct nvmf_connect_data *data = lane->table.connect_data;
	enum nvme_status status = command->status;

	if (!command->is_sending)
		command_give(&lane->table, command);
	if (lane_auth_is_running(&lane->auth)) {
		lane_auth_on_answer(lane, status);
		return;
	}
	lane->connect_result = result;
	if (status == NVME_OK)
		lane_auth_start(lane, result, (const char *)data->hostnqn,
				(const char *)data->subnqn, on_connected);
	else
		on_connected(lane, status);
}

static COLD void capture(struct lane *lane, const struct command *command,
			 const struct nvme_cqe *cqe)
{
	const struct volume_queue *queue = lane->queue;

	capture_add(queue->capture, &lane->stream, command->start_ns, queue->loop->now_ns,
		    &command->capsule->sqe, cqe);
}

static void on_answer(struct lane *lane, const struct nvme_cqe *cqe, const struct completion *c)
{
	struct command *command = command_find(&lane->table, get_le16(cqe->cid));

	if (!command) {
		lane_fail(lane, "target answered command %04x, which is not in flight",
			  get_le16(cqe->cid));
		return;
	}
	if (c->has_invalidated &&
	    !(command->data == COMMAND_DATA_LENT && c->invalidated_rkey == command->window.rkey)) {
		lane_fail(lane, "target invalidated a key it was not asked to");
		return;
	}
	command_stop(&lane->table, command);
	if (capture_is_on(lane->queue->capture))
		capture(lane, command, cqe);
	command->status = io_status_in(cqe);
	if (command->is_timed)
		choose_note(lane, command);
	PROBE(rblk, command_answered, command, command->io, PROBE_LE16(cqe->cid), command->status);
	if (!command->io) {
		on_setup_answer(lane, command, get_le64(cqe->result));
		return;
	}
	if (command->data == COMMAND_DATA_LENT)
		io_take_key_back(lane, command, c->has_invalidated);
	io_complete_when_idle(lane, command);
}

static void on_recv(struct recv *recv, struct qp *qp, const struct completion *c)
{
	struct lane *lane = qp->context;
	struct nvme_cqe cqe;

	if (c->byte_len < sizeof(cqe)) {
		recv_give(recv);
		lane_fail(lane, "target sent an answer of %u bytes", c->byte_len);
		return;
	}
	cqe = *(const struct nvme_cqe *)recv->capsule;
	recv_give(recv); /* before the next command can be answered into it */
	if (lane->state != LANE_FAILED)
		on_answer(lane, &cqe, c);
}

static void on_broken(struct qp *qp, const struct completion *c)
{
	lane_fail(qp->context, "the connection broke: %s", completion_string(c));
}

static void on_credit(struct qp *qp)
{
	io_pump(((struct lane *)qp->context)->queue);
}

/* ---- attach and start ---- */

static void on_drained(struct qp *qp);

static int attach(struct lane *lane)
{
	int r = lane_cq_start(lane->cq);

	if (r < 0)
		return r;
	lane->qp.context = lane;
	lane->qp.on_broken = on_broken;
	lane->qp.on_drained = on_drained;
	lane->qp.on_credit = on_credit;
	lane->qp.ring->on_recv = on_recv;
	r = qp_attach(&lane->qp);
	if (r < 0 && !qp_is_attached(lane->qp.state)) {
		lane_cq_stop(lane->cq);
		return r;
	}
	lane_move(lane, LANE_STARTING);
	lane->has_told_slow = false;
	return r;
}

static void on_attach(struct loop_msg *msg)
{
	struct lane *lane = container_of(msg, struct lane, attach_msg);

	lane->attach_result = attach(lane);
	if (lane->state != LANE_DETACHED) {
		choose_take_rank(lane);
		lane->awaited.n = &lane->table.n_in_flight;
		loop_awaited_add(lane->queue->loop, &lane->awaited);
		choose_join(lane);
	}
	tell(lane, &lane->attached_msg);
}

static void send_connect(struct lane *lane, struct command *command)
{
	struct command_table *table = &lane->table;
	struct nvme_sqe *sqe = &command->capsule->sqe;
	bool in_capsule = lane->limits.in_capsule_bytes >= CONNECT_BYTES;
	struct sge sges[] = {
		{sqe, sizeof(*sqe), table->mr.lkey},
		{table->connect_data, CONNECT_BYTES, table->mr.lkey},
	};

	if (in_capsule) {
		sqe->sgl = (struct nvme_sgl){.block = {
						     .length = put_le32(CONNECT_BYTES),
						     .type = NVME_SGL_DATA_BLOCK_OFFSET,
					     }};
	} else {
		sqe->sgl.keyed.address = put_le64((uintptr_t)table->connect_data);
		sqe->sgl.keyed.length = put_le24(CONNECT_BYTES);
		sqe->sgl.keyed.key = put_le32(table->mr.rkey);
	}
	connect_fill_command(sqe, lane->limits.qid, lane->limits.n_sq, 0);
	command->send.done = command_on_sent;
	command->is_sending = true;
	command_start(table, command, clock_ns());
	qp_send(&lane->qp, &command->send, sges, in_capsule ? 2 : 1, QP_SIGNALED, 0);
	lane_watch_timeout(lane);
}

static void on_start(struct loop_msg *msg)
{
	struct lane *lane = container_of(msg, struct lane, start_msg);
	struct command *command;

	if (lane->state != LANE_STARTING)
		return;
	command = command_take(&lane->table);
	check(command && qp_n_free(&lane->qp));
	send_connect(lane, command);
}

/* ---- stop ---- */

/* A lane is gone, and its I/O is the queue's again. */
static void go_on_without(struct volume_queue *queue)
{
	if (queue->lane->state == LANE_LIVE) {
		io_before_held(queue);
		io_pump(queue);
	} else if (queue->mode == QUEUE_FAIL) {
		io_fail_held(queue);
	}
}

/* Nothing of the queue pair is in the device's hands any more. */
static void on_drained(struct qp *qp)
{
	struct lane *lane = qp->context;
	struct list *in_flight = &lane->table.in_flight;

	lane->n_taken_back = lane->table.n_in_flight;
	/* From the youngest to the oldest, each to the head: the old order again. */
	while (!list_is_empty(in_flight)) {
		struct command *command = list_entry(in_flight->prev, struct command, node);
		struct volume_io *io = command->io;

		command_lose(command);
		if (io)
			io_hold_again(lane, io);
	}
	check(lane->table.n_free == lane->table.n);
	loop_timer_stop(&lane->io_timer);
	qp_detach(&lane->qp);
	lane_cq_stop(lane->cq);
	lane_move(lane, LANE_DETACHED);
	loop_awaited_remove(&lane->awaited);
	choose_leave(lane);
	go_on_without(lane->queue);
	tell(lane, &lane->stopped_msg);
}

static void on_stop(struct loop_msg *msg)
{
	struct lane *lane = container_of(msg, struct lane, stop_msg);

	if (lane->state == LANE_DETACHED) {
		tell(lane, &lane->stopped_msg);
		return;
	}
	if (lane->state != LANE_FAILED)
		lane_move(lane, LANE_FAILED); /* answers and failures count no more */
	qp_drain(&lane->qp);
}

/* ---- making ---- */

int lane_new(const struct lane_config *config, struct lane **ret_lane)
{
	struct lane *lane = calloc(1, sizeof(*lane));
	int r;

	if (!lane)
		return -ENOMEM;
	lane->path = config->path;
	lane->queue = config->queue;
	lane->limits.qid = config->queue->qid;
	lane->io_timeout_ns = config->io_timeout_ns;
	lane->is_watched = config->is_watched;
	lane->attach_msg.run = on_attach;
	lane->start_msg.run = on_start;
	lane->stop_msg.run = on_stop;
	lane->attached_msg.run = config->on_attached;
	lane->connected_msg.run = config->on_connected;
	lane->failed_msg.run = config->on_failed;
	lane->stopped_msg.run = config->on_stopped;
	lane->io_timer.on_expiry = lane_on_timeout;
	r = command_table_init(&lane->table, lane, config->n_entries * COMMANDS_PER_ENTRY);
	if (r < 0) {
		lane_free(lane);
		return r;
	}
	*ret_lane = lane;
	return 0;
}

void lane_free(struct lane *lane)
{
	if (!lane)
		return;
	check(lane->state == LANE_DETACHED);
	command_table_deinit(&lane->table);
	free(lane);
}
