/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O loop's side of an I/O queue: its life on the loop, and its answers (queue_watch.c has its
 * states and its timeouts).
 *
 * Happy path: attach (poll the completion queue, post receives) -> start (send Connect)
 * -> its answer makes the queue live -> answers to commands come in by on_recv, which
 * checks each against the table of commands and hands it to io.c -> stop (drain, give
 * every command's I/O back to the held ones) -> detached.
 *
 * Failures: whatever is wrong with the connection - a failed work request, an answer that
 * is short or names no command in flight, a command without answer for too long - goes
 * to host_queue_fail. It is not repaired here: control tears the association down and builds
 * another (link.c, reconnect.c). Until then the queue sends nothing and discards answers.
 *
 * Invariants: an I/O is in exactly one of held, waiting, fencing, finished, or a command in
 * flight. Its buffer was in a queue pair's hands only if that queue pair is this one, and
 * it leaves a dead one only after on_drained (reliability I2).
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/probe.h"
#include "initiator/io/connect.h"
#include "initiator/io/io_fencing.h"
#include "initiator/io/io_status.h"
#include "initiator/io/queue.h"

enum {
	CONNECT_BYTES = sizeof(struct nvmf_connect_data),
};

static void tell(struct volume_queue *queue, struct loop_msg *msg)
{
	loop_send(queue->control, msg);
}

/* ---- answers ---- */

/* Connect, and authentication where it is required, are over. */
static void on_connected(struct volume_queue *queue, enum nvme_status status)
{
	queue->connect_status = status;
	io_before_held(queue);
	if (status == NVME_OK && queue->state == HOST_QUEUE_STARTING)
		host_queue_move(queue, HOST_QUEUE_LIVE);
	tell(queue, &queue->connected_msg);
	io_pump(queue);
}

/* To Connect, or to a command of the authentication that follows it. */
static void on_setup_answer(struct volume_queue *queue, struct command *command, uint64_t result)
{
	const struct nvmf_connect_data *data = queue->table.connect_data;
	enum nvme_status status = command->status;

	if (!command->is_sending)
		command_give(&queue->table, command);
	if (queue_auth_is_running(&queue->auth)) {
		queue_auth_on_answer(queue, status);
		return;
	}
	queue->connect_result = result;
	if (status == NVME_OK)
		queue_auth_start(queue, result, (const char *)data->hostnqn,
				 (const char *)data->subnqn, on_connected);
	else
		on_connected(queue, status);
}

static __attribute__((noinline, cold)) void
capture(struct volume_queue *queue, const struct command *command, const struct nvme_cqe *cqe)
{
	capture_add(queue->capture, &queue->stream, command->start_ns, queue->loop->now_ns,
		    &command->capsule->sqe, cqe);
}

static void on_answer(struct volume_queue *queue, const struct nvme_cqe *cqe,
		      const struct completion *c)
{
	struct command *command = command_find(&queue->table, get_le16(cqe->cid));

	if (!command) {
		host_queue_fail(queue, "target answered command %04x, which is not in flight",
				get_le16(cqe->cid));
		return;
	}
	if (c->has_invalidated &&
	    !(command->data == COMMAND_DATA_LENT && c->invalidated_rkey == command->window.rkey)) {
		host_queue_fail(queue, "target invalidated a key it was not asked to");
		return;
	}
	command_stop(&queue->table, command);
	if (capture_is_on(queue->capture))
		capture(queue, command, cqe);
	command->status = io_status_in(cqe);
	PROBE(rblk, command_answered, command, command->io, PROBE_LE16(cqe->cid), command->status);
	if (!command->io) {
		on_setup_answer(queue, command, get_le64(cqe->result));
		return;
	}
	if (command->data == COMMAND_DATA_LENT)
		io_take_key_back(queue, command, c->has_invalidated);
	io_complete_when_idle(queue, command);
}

static void on_recv(struct recv *recv, struct qp *qp, const struct completion *c)
{
	struct volume_queue *queue = qp->context;
	struct nvme_cqe cqe;

	if (c->byte_len < sizeof(cqe)) {
		recv_give(recv);
		host_queue_fail(queue, "target sent an answer of %u bytes", c->byte_len);
		return;
	}
	cqe = *(const struct nvme_cqe *)recv->capsule;
	recv_give(recv); /* before the next command can be answered into it */
	if (queue->state != HOST_QUEUE_FAILED)
		on_answer(queue, &cqe, c);
}

static void on_broken(struct qp *qp, const struct completion *c)
{
	host_queue_fail(qp->context, "the connection broke: %s", completion_string(c));
}

static void on_credit(struct qp *qp)
{
	io_pump(qp->context);
}

/* ---- attach and start ---- */

static void on_drained(struct qp *qp);

static int attach(struct volume_queue *queue)
{
	int r = queue_cq_start(queue->cq);

	if (r < 0)
		return r;
	queue->qp.context = queue;
	queue->qp.on_broken = on_broken;
	queue->qp.on_drained = on_drained;
	queue->qp.on_credit = on_credit;
	queue->qp.ring->on_recv = on_recv;
	r = qp_attach(&queue->qp);
	if (r < 0 && !qp_is_attached(queue->qp.state)) {
		queue_cq_stop(queue->cq);
		return r;
	}
	host_queue_move(queue, HOST_QUEUE_STARTING);
	queue->has_told_slow = false;
	return r;
}

static void on_attach(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, attach_msg);

	if (!queue->awaited.n) {
		queue->awaited.n = &queue->table.n_in_flight;
		loop_awaited_add(queue->loop, &queue->awaited);
	}
	queue->attach_result = attach(queue);
	tell(queue, &queue->attached_msg);
}

static void send_connect(struct volume_queue *queue, struct command *command)
{
	struct command_table *table = &queue->table;
	struct nvme_sqe *sqe = &command->capsule->sqe;
	bool in_capsule = queue->limits.in_capsule_bytes >= CONNECT_BYTES;
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
	connect_fill_command(sqe, queue->limits.qid, queue->limits.n_sq, 0);
	command->send.done = command_on_sent;
	command->is_sending = true;
	command_start(table, command, clock_ns());
	qp_send(&queue->qp, &command->send, sges, in_capsule ? 2 : 1, QP_SIGNALED, 0);
	queue_watch_timeout(queue);
}

static void on_start(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, start_msg);
	struct command *command;

	if (queue->state != HOST_QUEUE_STARTING)
		return;
	command = command_take(&queue->table);
	check(command && qp_n_free(&queue->qp));
	send_connect(queue, command);
}

/* ---- stop ---- */

/* Nothing of the queue pair is in the device's hands any more. */
static void on_drained(struct qp *qp)
{
	struct volume_queue *queue = qp->context;
	struct list *in_flight = &queue->table.in_flight;

	/* From the youngest to the oldest, each to the head: the old order again. */
	while (!list_is_empty(in_flight)) {
		struct command *command = list_entry(in_flight->prev, struct command, node);
		struct volume_io *io = command->io;

		command_stop(&queue->table, command);
		command_give(&queue->table, command);
		if (io)
			io_hold_again(queue, io);
	}
	check(queue->table.n_free == queue->table.n);
	loop_timer_stop(&queue->io_timer);
	qp_detach(&queue->qp);
	queue_cq_stop(queue->cq);
	host_queue_move(queue, HOST_QUEUE_DETACHED);
	if (queue->mode == QUEUE_FAIL)
		io_fail_held(queue);
	tell(queue, &queue->stopped_msg);
}

static void on_stop(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, stop_msg);

	if (queue->state == HOST_QUEUE_DETACHED) {
		tell(queue, &queue->stopped_msg);
		return;
	}
	if (queue->state != HOST_QUEUE_FAILED)
		host_queue_move(queue, HOST_QUEUE_FAILED); /* answers and failures count no more */
	qp_drain(&queue->qp);
}

static void on_slab_quitted(struct slab *slab)
{
	struct volume_queue *queue = container_of(slab, struct volume_queue, slab);

	tell(queue, &queue->quitted_msg);
}

static void on_quit(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, quit_msg);

	check(list_is_empty(&queue->held) && list_is_empty(&queue->waiting) &&
	      list_is_empty(&queue->finished) && !queue->fencing.n);
	loop_timer_stop(&queue->io_timer);
	loop_timer_stop(&queue->retry_timer);
	loop_call_cancel(&queue->finish_call);
	loop_awaited_remove(&queue->awaited);
	slab_quit(&queue->slab, on_slab_quitted);
}

/* ---- mode ---- */

static void on_mode(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, mode_msg);

	atomic_store(&queue->is_mode_sent, false); /* before the look: a later change sends again */
	queue->mode = (enum queue_mode)atomic_load(&queue->wanted_mode);
	if (queue->mode == QUEUE_FAIL && queue->state != HOST_QUEUE_LIVE)
		io_fail_held(queue); /* what is in flight follows in on_drained */
	else if (queue->mode == QUEUE_HOLD)
		io_retry_now(queue);
}

void queue_set_mode(struct volume_queue *queue, enum queue_mode mode)
{
	if (queue->is_removing)
		return; /* the I/O loop may have let go of it */
	atomic_store(&queue->wanted_mode, mode);
	if (!atomic_exchange(&queue->is_mode_sent, true))
		loop_send(queue->loop, &queue->mode_msg);
}

void queue_retry(struct volume_queue *queue)
{
	queue_set_mode(queue, (enum queue_mode)atomic_load(&queue->wanted_mode));
}

static void on_proof(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, fencing.msg);

	atomic_store(&queue->fencing.is_sent, false); /* before the look, as in on_mode */
	io_fencing_look(queue);
}

void queue_look_at_proof(struct volume_queue *queue)
{
	if (!queue->is_removing && !atomic_exchange(&queue->fencing.is_sent, true))
		loop_send(queue->loop, &queue->fencing.msg);
}

/* ---- making ---- */

int queue_new(const struct queue_config *config, struct volume_queue **ret_queue)
{
	struct volume_queue *queue = calloc(1, sizeof(*queue));
	int r;

	if (!queue)
		return -ENOMEM;
	queue->volume = config->volume;
	queue->loop = config->loop;
	queue->control = config->control;
	queue->unflushed = config->unflushed;
	queue->fencing.unproven = config->unproven;
	queue->fencing.is_closed = atomic_load(&config->unproven->is_closed);
	queue->n_obstacles = queue->fencing.is_closed;
	queue->io_errors = config->io_errors;
	queue->capture = config->capture;
	queue->limits.qid = config->qid;
	queue->io_timeout_ns = config->io_timeout_ns;
	queue->is_watched = config->is_watched;
	queue->retry_for_ns = config->retry_for_ns;
	queue->attach_msg.run = on_attach;
	queue->start_msg.run = on_start;
	queue->stop_msg.run = on_stop;
	queue->quit_msg.run = on_quit;
	queue->mode_msg.run = on_mode;
	queue->fencing.msg.run = on_proof;
	queue->attached_msg.run = config->on_attached;
	queue->connected_msg.run = config->on_connected;
	queue->failed_msg.run = config->on_failed;
	queue->stopped_msg.run = config->on_stopped;
	queue->quitted_msg.run = config->on_quitted;
	queue->finish_call.run = io_on_finish;
	queue->io_timer.on_expiry = queue_on_timeout;
	queue->retry_timer.on_expiry = io_on_retry;
	list_init(&queue->node);
	list_init(&queue->held);
	list_init(&queue->waiting);
	list_init(&queue->finished);
	list_init(&queue->fencing.list);
	r = slab_init(&queue->slab, &(struct slab_config){
					    .control = config->control,
					    .loop = config->loop,
					    .n_bytes = config->slab_bytes,
					    .max_block = 1ull << log2_ceil(config->max_io_bytes),
					    .is_whole = config->is_slab_whole,
					    .on_resize = config->on_resize,
				    });
	if (r == 0)
		r = command_table_init(&queue->table, queue,
				       config->n_entries * COMMANDS_PER_ENTRY);
	if (r < 0) {
		queue_free(queue);
		return r;
	}
	*ret_queue = queue;
	return 0;
}

void queue_free(struct volume_queue *queue)
{
	check(queue->state == HOST_QUEUE_DETACHED);
	command_table_deinit(&queue->table);
	slab_deinit(&queue->slab);
	free(queue);
}
