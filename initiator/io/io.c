/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Happy path: volume_io_submit makes the I/O a command. While there is none free, or no room
 * in the submission queue, or others wait for that, it goes to the end of the held ones, which
 * io_pump takes in order. A command's answer ends in complete(): the I/O is done, or, if one
 * command could not do all of it, goes to the head of the held ones with done_bytes further on.
 * So an I/O has at most one command in flight. But a Compare and Write is a pair of commands: they
 * need room at once, lie next to each other in the submission queue, and are over when both are
 * answered.
 *
 * Failures: an answer that may be asked again (io_status_retry) sends the I/O to the waiting ones
 * for a while: so does one that the path does not serve now (ANA), until it does, and control says
 * so (queue_retry). A change whose association was lost waits for proof first (io_fencing.c); a
 * Compare and Write ends then with -ECONNRESET, because its first copy may have written.
 * Everything else goes to done. done is called from completions or from finish_call, never from
 * inside volume_io_submit.
 *
 * Taking back: an I/O whose user is gone is not sent any more. Held and waiting ones end at once.
 * One that is on the wire is not stopped, for the target may have done it; but it is not sent
 * again. When its connection broke, its user got no answer, so either outcome is correct, and a
 * change is done only when the target is proven to be done with it (io_fencing.c).
 */
#include <errno.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/probe.h"
#include "initiator/io/choose.h"
#include "initiator/io/io.h"
#include "initiator/io/io_build.h"
#include "initiator/io/io_errors.h"
#include "initiator/io/io_fencing.h"
#include "initiator/io/io_flush.h"
#include "initiator/io/io_place.h"
#include "initiator/io/io_status.h"
#include "initiator/io/lane_room.h"
#include "initiator/io/lane_watch.h"
#include "initiator/io/queue_impl.h"
#include "transport/qp_post.h"

enum {
	RETRIES_MAX = 5,
};

/* For the status, which control reads: a plain store of this one writer. */
static void publish(struct lane *lane)
{
	atomic_store_explicit(&lane->seen_in_flight, lane->table.n_in_flight, memory_order_relaxed);
}

void io_hold_again(struct lane *lane, struct volume_io *io)
{
	struct volume_queue *queue = lane->queue;

	io->command = NULL;
	publish(lane);
	if (io_fencing_take(queue, io, lane->limits.serial))
		return;
	if (io->is_cancelled)
		io_finish_later(queue, io, -ECANCELED);
	else if (io->op == VOLUME_COMPARE_AND_WRITE)
		io_end_unknown(queue, io);
	else
		io_hold_first(queue, io);
}

void io_fail_held(struct volume_queue *queue)
{
	io_give_up_all(queue);
	io_fencing_fail(queue);
}

/* ---- sending ---- */

static void on_sent(struct work *work, const struct completion *c);

/* half: of a pair, or NULL. */
static NOINLINE void start(struct lane *lane, struct volume_io *io, struct command *half)
{
	struct command *command = half ? half : command_take(&lane->table);
	struct sge sges[QP_SGE_MAX] UNINITIALIZED;
	unsigned n, flags = 0;

	command->io = io;
	io->command = command;
	n = io_build(lane, command, sges);
	if (n == 1 && sges[0].length <= lane->qp.max_inline)
		flags |= QP_INLINE;
	if (command->data == COMMAND_DATA_SENT)
		flags |= QP_SIGNALED; /* its end is waited for */
	command->send.done = on_sent;
	command->is_sending = true;
	command_start(&lane->table, command, lane->queue->loop->now_ns);
	PROBE(rblk, command_sent, command, io, lane->limits.qid,
	      PROBE_BYTE(command->capsule->sqe.opcode), PROBE_LE16(command->capsule->sqe.cid),
	      command->n_bytes);
	qp_send(&lane->qp, &command->send, sges, n, flags, 0);
	lane_watch_timeout(lane);
	publish(lane);
}

/* Compare and Write, next to each other: a target takes nothing else for a pair. */
static COLD void start_pair(struct lane *lane, struct volume_io *io)
{
	struct command *pair[2];

	command_take_pair(&lane->table, pair);
	start(lane, io, pair[0]);
	start(lane, io, pair[1]);
}

/* ---- in ---- */

static bool is_supported(const struct lane *lane, const struct volume_io *io)
{
	if (io->op == VOLUME_WRITE_ZEROES)
		return lane->limits.has_zero;
	if (io->op == VOLUME_TRIM)
		return lane->limits.has_trim;
	if (io->op == VOLUME_COMPARE_AND_WRITE)
		return lane->limits.max_compare_bytes;
	return true;
}

/* The target has lost power: this Flush could not save the writes before it any more. */
static COLD void fail_flush(struct volume_queue *queue, struct volume_io *io)
{
	volume_io_errors_add(queue, io, NVME_OK,
			     "the target has lost power with acknowledged writes");
	io_finish_later(queue, io, -EIO);
}

/* Ends I/O for which the target need not be asked. */
static bool finish_at_once(struct lane *lane, struct volume_io *io)
{
	struct volume_queue *queue = lane->queue;

	if (!is_supported(lane, io))
		io_finish_later(queue, io, -EOPNOTSUPP);
	else if (io->op == VOLUME_COMPARE_AND_WRITE && io->length > lane->limits.max_compare_bytes)
		io_finish_later(queue, io, -EINVAL);
	else if (io->op != VOLUME_FLUSH && !io->length)
		io_finish_later(queue, io, 0);
	else if (io->op == VOLUME_FLUSH && unflushed_take_report(queue->unflushed))
		fail_flush(queue, io);
	else
		return false;
	return true;
}

static void begin(struct lane *lane, struct volume_io *io)
{
	if (finish_at_once(lane, io))
		return;
	io_move(io, IO_SENT);
	if (io->op == VOLUME_COMPARE_AND_WRITE)
		start_pair(lane, io);
	else
		start(lane, io, NULL);
}

/* Nothing serves the oldest held I/O now. */
static void wait_for_path(struct volume_queue *queue, struct volume_io *io)
{
	io_take(queue, io);
	if (clock_ns() - io->submit_ns < queue->retry_for_ns)
		io_wait(queue, io);
	else
		io_give_up(queue, io);
}

static void start_on(struct lane *lane, struct volume_io *io)
{
	struct volume_queue *queue = lane->queue;
	struct command *command;

	io_take(queue, io);
	if (io_fencing_holds(queue, io)) {
		io_fencing_add(queue, io);
		return;
	}
	begin(lane, io);
	command = io->command;
	if (command && choose_has_choice(&queue->choice))
		command->is_timed = true;
}

static struct io_way way_of(struct volume_queue *queue, const struct volume_io *io)
{
	struct lane *lane;

	if (io->op == VOLUME_FLUSH)
		return io_flush_way(queue, io);
	lane = choose_lane(queue, io->length - io->done_bytes);
	/* Where there is too little for the second half, an answer is due, which makes it. */
	if (lane && io->op == VOLUME_COMPARE_AND_WRITE && lane->limits.max_compare_bytes &&
	    !lane_has_room_for_pair(lane))
		lane = NULL;
	return io_way_by(lane);
}

/* The oldest held I/O leaves the held ones; false: there is no room for it. */
static bool start_one_held(struct volume_queue *queue)
{
	struct volume_io *io = io_oldest_held(queue);
	struct io_way way = way_of(queue, io);

	switch (way.kind) {
	case IO_WAY_LANE:
		start_on(way.lane, io);
		return true;
	case IO_WAY_AWAY:
		wait_for_path(queue, io);
		return true;
	case IO_WAY_FULL:
		break;
	}
	return false;
}

static NOINLINE void start_held(struct volume_queue *queue)
{
	while (queue->n_held && start_one_held(queue))
		;
}

void io_pump(struct volume_queue *queue)
{
	if (queue->n_held)
		start_held(queue);
}

/* Apart, as all that few I/Os need. */
static NOINLINE void hold(struct volume_queue *queue, struct volume_io *io)
{
	io_hold_last(queue, io);
	io_pump(queue);
}

/* A new read or write may go past all that is here, to the one lane that there is. */
static inline bool is_plain(const struct volume_queue *queue)
{
	return !queue->n_held && !queue->fencing.n && !queue->fencing.is_closed &&
	       !choose_has_choice(&queue->choice);
}

void volume_io_submit(struct volume_queue *queue, struct volume_io *io)
{
	check(io->done && !((io->offset | io->length) & ((1ULL << queue->block_shift) - 1)));
	io->done_bytes = 0;
	io->n_retries = 0;
	io->place = IO_TAKEN; /* it may be anything: a new I/O */
	io->is_cancelled = false;
	io->command = NULL;
	io->submit_ns = queue->loop->now_ns;
	if (queue->mode == QUEUE_FAIL) {
		io_give_up(queue, io);
		return;
	}
	if (io->op == VOLUME_FLUSH)
		io_flush_begin(queue, io);
	else if (io->op <= VOLUME_WRITE && is_plain(queue) && lane_has_room(queue->lane)) {
		begin(queue->lane, io);
		return;
	}
	hold(queue, io);
}

/* ---- taken back ---- */

bool volume_io_cancel(struct volume_queue *queue, struct volume_io *io)
{
	io->is_cancelled = true;
	switch (io->place) {
	case IO_HELD:
	case IO_WAITING:
		io_take(queue, io);
		break;
	case IO_FENCING:
		if (!io_fencing_remove(queue, io))
			return false;
		break;
	case IO_TAKEN:
	case IO_SENT:
	case IO_FINISHED:
	case IO_DONE:
		return false;
	}
	io_finish_later(queue, io, -ECANCELED);
	return true;
}

void volume_io_set_before_held(struct volume_queue *queue, void (*run)(void *context),
			       void *context)
{
	queue->before_held = run;
	queue->before_held_context = context;
}

void io_before_held(struct volume_queue *queue)
{
	if (queue->before_held &&
	    (queue->n_held || queue->fencing.n || !list_is_empty(&queue->waiting)))
		queue->before_held(queue->before_held_context);
}

/* ---- out ---- */

void io_on_retry(struct loop_timer *timer)
{
	struct volume_queue *queue = container_of(timer, struct volume_queue, retry_timer);

	choose_shun_none(queue);
	io_before_held(queue);
	io_hold_waiting(queue);
	io_pump(queue);
}

void io_retry_now(struct volume_queue *queue)
{
	if (list_is_empty(&queue->waiting))
		return;
	loop_timer_stop(&queue->retry_timer);
	io_on_retry(&queue->retry_timer);
}

static bool may_retry(struct volume_queue *queue, struct volume_io *io, enum nvme_status status)
{
	uint64_t age = clock_ns() - io->submit_ns;

	if (queue->mode == QUEUE_FAIL || io->is_cancelled)
		return false;
	switch (io_status_retry(status)) {
	case IO_RETRY_NO:
		return false;
	case IO_RETRY_COUNTED:
		return io->n_retries++ < RETRIES_MAX;
	case IO_RETRY_WHILE_LOST:
		return age < queue->retry_for_ns;
	}
	return false;
}

/* The namespace is not there. Before anything is sent again control looks whether it is back,
 * and still the same: nothing must be written to what may come in its place. */
static bool hold_for_namespace(struct lane *lane, struct volume_io *io, enum nvme_status status)
{
	struct volume_queue *queue = lane->queue;

	if (nvme_status_code(status) != NVME_INVALID_NSID || io->is_cancelled ||
	    queue->mode == QUEUE_FAIL || clock_ns() - io->submit_ns >= queue->retry_for_ns)
		return false;
	io_hold_first(queue, io);
	lane_fail(lane, "namespace %u is not there any more", lane->limits.nsid);
	return true;
}

/* The path does not serve it; another one of the volume may. */
static bool send_elsewhere(struct lane *lane, struct volume_io *io, enum nvme_status status)
{
	struct volume_queue *queue = lane->queue;

	if (!io_status_is_of_path(status) || queue->choice.n < 2 || io->is_cancelled ||
	    !choose_shun(lane))
		return false;
	io_start_retry_timer(queue); /* it ends the shunning */
	io_hold_first(queue, io);
	return true;
}

/* Apart: what it needs on its stack is no part of every completion. */
static NOINLINE void fail_or_retry(struct lane *lane, struct volume_io *io, enum nvme_status status)
{
	struct volume_queue *queue = lane->queue;

	if (hold_for_namespace(lane, io, status) || send_elsewhere(lane, io, status))
		return;
	if (may_retry(queue, io, status)) {
		io_wait(queue, io);
	} else {
		volume_io_errors_add(queue, io, status, NULL);
		io_end(io, io_status_errno(status, io->op));
	}
}

/* A command of a Flush has succeeded. */
static NOINLINE void complete_flush(struct lane *lane, struct volume_io *io)
{
	struct volume_queue *queue = lane->queue;

	unflushed_flushed(queue->unflushed, lane->limits.path, io->flush_number);
	if (unflushed_take_report(queue->unflushed)) {
		fail_flush(queue, io);
	} else if (io_flush_is_over(lane, io)) {
		io_stats_add(&queue->stats, io, queue->loop->now_ns);
		io_end(io, 0);
	} else if (io->is_cancelled) {
		io_end(io, -ECANCELED);
	} else {
		io_hold_first(queue, io); /* by another path, too */
	}
}

/* A command of the io has succeeded. A part of a longer write counts: the target has
 * acknowledged it. */
static inline void note_success(const struct lane *lane, const struct volume_io *io)
{
	if (io->op != VOLUME_READ && !io->is_fua)
		unflushed_note(lane->queue->unflushed, lane->limits.path);
}

static void complete_one(struct lane *lane, struct volume_io *io, uint64_t n_bytes,
			 enum nvme_status status)
{
	struct volume_queue *queue = lane->queue;

	io->command = NULL;
	if (status != NVME_OK) {
		fail_or_retry(lane, io, status);
		return;
	}
	if (io->op == VOLUME_FLUSH) {
		complete_flush(lane, io);
		return;
	}
	note_success(lane, io);
	io->done_bytes += n_bytes;
	if (io->done_bytes >= io->length) {
		io_stats_add(&queue->stats, io, queue->loop->now_ns);
		io_end(io, 0);
	} else if (io->is_cancelled) {
		io_end(io, -ECANCELED);
	} else {
		io_hold_first(queue, io); /* the next part */
	}
}

static inline void give_or_linger(struct lane *lane, struct command *command)
{
	if (command->is_sending)
		command->io = NULL; /* lingers, until on_sent */
	else
		command_give(&lane->table, command);
}

static void complete(struct lane *lane, struct command *command)
{
	struct volume_io *io = command->io;
	uint64_t n_bytes = command->n_bytes;
	enum nvme_status status = command->status;

	/* First: done may submit again, and should find the slot. */
	give_or_linger(lane, command);
	publish(lane);
	complete_one(lane, io, n_bytes, status);
	io_pump(lane->queue);
}

static void settle_pair(struct lane *lane, struct volume_io *io, enum nvme_status compare,
			enum nvme_status write)
{
	struct volume_queue *queue = lane->queue;
	bool may_repeat;
	enum nvme_status status = io_status_of_pair(compare, write, &may_repeat);

	if (status == NVME_OK) {
		note_success(lane, io);
		io_stats_add(&queue->stats, io, queue->loop->now_ns);
		io_end(io, 0);
	} else if (may_repeat && nvme_status_code(status) != NVME_COMPARE_FAILURE) {
		fail_or_retry(lane, io, status);
	} else if (may_repeat) { /* a result, and no failure */
		io_stats_add(&queue->stats, io, queue->loop->now_ns);
		io_end(io, -EILSEQ);
	} else {
		volume_io_errors_add(queue, io, status,
				     write == NVME_OK ? "the target has written, but not compared"
						      : NULL);
		io_end(io, write == NVME_OK ? -EIO : io_status_errno(status, io->op));
	}
}

/* A half is over; the other half may be, too. */
static COLD void complete_pair(struct lane *lane, struct command *command)
{
	struct command *other = command->pair;
	struct command *first = command->is_second ? other : command;
	struct volume_io *io = command->io;
	enum nvme_status compare = first->status, write = first->pair->status;

	if (!command_is_idle(other))
		return;
	io->command = command->pair = other->pair = NULL;
	give_or_linger(lane, command);
	give_or_linger(lane, other);
	publish(lane);
	settle_pair(lane, io, compare, write);
	io_pump(lane->queue);
}

static void count(_Atomic uint64_t *n)
{
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* Answered; over when the device is done with the buffer and the target with its key. */
void io_complete_when_idle(struct lane *lane, struct command *command)
{
	if (!command_is_idle(command))
		return;
	if (command->pair)
		complete_pair(lane, command);
	else
		complete(lane, command);
}

/* The key is of no use any more. A connection that broke meanwhile has the same effect. */
static void on_revoked(struct work *work, const struct completion *c)
{
	struct command *command = container_of(work, struct command, revoke);

	command_move(command, COMMAND_ANSWERED);
	io_complete_when_idle(command->lane, command);
}

/* The target may have left the key to us (a host has to bear that: NVMe over RDMA binding); nothing
 * is the front end's before the target can no longer reach it. */
void io_take_key_back(struct lane *lane, struct command *command, bool is_invalidated)
{
	if (is_invalidated) {
		count(&lane->n_invalidated);
		return;
	}
	count(&lane->n_revoked);
	command_move(command, COMMAND_REVOKING);
	command->revoke.done = on_revoked;
	qp_invalidate(&lane->qp, &command->revoke, &command->window);
}

/* The device is done with the SEND of an I/O, which may have been answered long ago. */
static void on_sent(struct work *work, const struct completion *c)
{
	struct command *command = container_of(work, struct command, send);

	if (!command->io) {
		command_on_sent(work, c);
		return;
	}
	command->is_sending = false;
	if (command->state == COMMAND_ANSWERED)
		io_complete_when_idle(command->lane, command);
}
