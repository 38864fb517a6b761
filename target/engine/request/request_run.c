/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a command, in the order in which things happen. Runs on the queue's poller.
 *
 *   step         what happens there               where a request waits
 *   PARSE        capsule checked, command copied  THROTTLED    for its rate
 *                                                 PAIR         a fused first, for its second
 *   TAKE_BUFFER  memory for the data              WAIT_BUFFER  for free memory
 *   READ_DATA    RDMA READ of the host's data     WAIT_READ    for a slot or a credit
 *                                                 READING      for the device
 *   EXECUTE      enters the namespace, works      PARKED       at the guard
 *                                                 BACKEND      for the disk
 *                                                 TURN         to be alone there
 *                                                 CONTROL      for the control thread
 *                                                 HELD         for an event to report
 *   RESPOND      WRITE of data, SEND of response  WAIT_SLOT    for room in the send queue
 *   FINISH       gives everything back, without a response
 *
 * A write of 64 KiB: the poller checks the capsule, copies the command and posts the receive again
 * at once. The request takes a buffer, fetches the host's data by RDMA READ, passes it to the
 * backend, and responds. A read: buffer, backend, then RDMA WRITE and response in one post.
 *
 * A read of a RAM namespace needs no buffer: the device takes the data straight from memory. A
 * write there goes through a buffer, and is copied block by block when all of it has arrived. So
 * other commands see whole blocks, even if the host dies in the middle (store/whole.h).
 *
 * Data in the capsule needs no RDMA READ: the request retains the receive, and the backend writes
 * from it. When slow writes retain more than half of the shared receives, the data is copied and
 * the receive goes back (receives.h).
 *
 * Failures. A bad command gets its status and has no other effect. A peer that breaks the protocol
 * loses its connection. When the connection dies, requests that wait in a list of the engine are
 * dropped. The device, the backend and the control thread return theirs, and these leave through
 * FINISH. A command that has not started by then never starts (fence).
 *
 * Invariants: a request is in exactly one place: a step, one wait list, the device, the backend,
 * the control thread. Nothing here allocates; a request that finds no buffer, slot or credit waits
 * in order of arrival. The response is the last action of a request.
 */
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/probe.h"
#include "base/states.h"
#include "target/engine/record/capsules.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/record/error_log.h"
#include "target/engine/record/host.h"
#include "target/engine/request/pair.h"
#include "target/engine/request/parse.h"
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue.h"
#include "target/engine/queue/queue_path.h"
#include "target/engine/queue/queue_state.h"
#include "target/engine/request/receives.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_buffer.h"
#include "target/engine/request/request_enter.h"
#include "target/engine/request/request_namespace.h"
#include "target/engine/request/request_run.h"
#include "target/engine/request/response.h"
#include "target/engine/queue/sink.h"
#include "target/engine/request/stall.h"
#include "target/engine/request/throttle.h"
#include "target/export/guard/guard.h"
#include "transport/qp_post.h"

#define TO(s) STATE_TO(REQUEST_##s)

/* A step of every command. All are part of drive: registers are saved once a command, not once a
 * step. */
#define STEP static inline __attribute__((always_inline)) enum request_state

static const struct state_rule rules[] = {
	[REQUEST_FREE] = {"free", TO(PARSE)},
	[REQUEST_PARSE] = {"parse",
			   TO(THROTTLED) | TO(TAKE_BUFFER) | TO(EXECUTE) | TO(PAIR) | TO(RESPOND)},
	[REQUEST_THROTTLED] = {"throttled", TO(TAKE_BUFFER) | TO(RESPOND) | TO(FINISH)},
	[REQUEST_TAKE_BUFFER] = {"take-buffer",
				 TO(WAIT_BUFFER) | TO(READ_DATA) | TO(EXECUTE) | TO(RESPOND)},
	[REQUEST_WAIT_BUFFER] = {"wait-buffer", TO(TAKE_BUFFER) | TO(RESPOND) | TO(FINISH)},
	[REQUEST_READ_DATA] = {"read-data", TO(WAIT_READ) | TO(READING) | TO(RESPOND)},
	[REQUEST_WAIT_READ] = {"wait-read", TO(READ_DATA) | TO(RESPOND) | TO(FINISH)},
	[REQUEST_READING] = {"reading", TO(READ_DATA) | TO(EXECUTE) | TO(FINISH)},
	[REQUEST_PARKED] = {"parked", TO(EXECUTE) | TO(RESPOND) | TO(FINISH)},
	[REQUEST_EXECUTE] = {"execute", TO(TAKE_BUFFER) | TO(PARKED) | TO(BACKEND) | TO(TURN) |
						TO(CONTROL) | TO(HELD) | TO(RESPOND) | TO(FINISH)},
	[REQUEST_BACKEND] = {"backend", TO(READ_DATA) | TO(TURN) | TO(RESPOND)},
	[REQUEST_TURN] = {"turn", TO(RESPOND)},
	[REQUEST_PAIR] = {"pair", TO(RESPOND) | TO(FINISH)},
	[REQUEST_CONTROL] = {"control", TO(BACKEND) | TO(RESPOND)},
	[REQUEST_HELD] = {"held", TO(RESPOND) | TO(FINISH)},
	[REQUEST_RESPOND] = {"respond", TO(WAIT_SLOT) | TO(FINISH)},
	[REQUEST_WAIT_SLOT] = {"wait-slot", TO(RESPOND) | TO(FINISH)},
	[REQUEST_FINISH] = {"finish", 0}, /* as RESPOND: FREE, when all is given back */
};
static_assert(sizeof(rules) / sizeof(rules[0]) == REQUEST_GONE, "a rule for each state");
static_assert(REQUEST_GONE < 64, "STATE_TO has a bit for each");

/* ---- requests ---------------------------------------------------------------------- */

static void put_free(struct request *r)
{
	r->next_free = r->queue->free_requests;
	r->queue->free_requests = r;
}

/* A request that was never used, in zeroed memory; NULL: the host has sent too many commands. */
static NOINLINE struct request *make_request(struct queue *queue)
{
	struct request *r = &queue->requests[queue->n_requests];

	if (queue->n_requests == queue->n_entries)
		return NULL;
	queue->n_requests++;
	r->queue = queue;
	list_init(&r->wait);
	pass_init(&r->pass, &queue->guard_client, true);
	return r;
}

static struct request *take_free(struct queue *queue)
{
	struct request *r = queue->free_requests;

	if (!r)
		return make_request(queue);
	queue->free_requests = r->next_free;
	return r;
}

/* Zeroes the fields that each command begins with, from result to is_fresh. In two pieces: the
 * compiler clears pieces of this size with a few stores, and larger ones with a loop. */
static void clear(struct request *r)
{
	enum {
		BYTES = offsetof(struct request, is_fresh) - offsetof(struct request, result),
		PIECE = 64,
	};
	char *first = (char *)r + offsetof(struct request, result);

	static_assert(NVME_OK == 0 && DIRECTION_NONE == 0 && TURN_NONE == 0, "zero");
	static_assert(BYTES > PIECE && BYTES <= 2 * PIECE, "two pieces");
	memset(first, 0, PIECE);
	memset(first + PIECE, 0, BYTES - PIECE);
}

/* The request of a new command is still in use: it has a state or holds something. It is a defect,
 * and nothing of the request is used or freed. */
static bool is_soiled(const struct request *r)
{
	static_assert(REQUEST_FREE == 0, "the sum of all is 0");

	/* Or, not logical or: one branch instead of five. */
	return r->state | (uintptr_t)r->ns | (uintptr_t)r->buffer.data | (uintptr_t)r->recv |
	       (uintptr_t)r->pair;
}

static void prepare(struct request *r, struct queue *queue, struct recv *recv, uint32_t received)
{
	uint64_t n = queue->counters.n_commands + 1;

	counter_add(&queue->counters.n_commands, 1);
	memcpy(&r->sqe, recv->capsule, sizeof(r->sqe));
	timing_start(&r->timing, n,
		     atomic_load_explicit(&queue->target->slow_ticks, memory_order_relaxed));
	r->capsule = capsules_add(queue->capsules, n, &r->sqe, r->timing.started);
	r->sgl = (struct sgl_data){.place = SGL_NONE};
	r->received = received;
	clear(r);
	r->is_fresh = queue->qid != 0;
	/* The command is copied, so only in-capsule data is a reason to retain the receive. */
	if (r->sqe.sgl.keyed.type == NVME_SGL_DATA_BLOCK_OFFSET)
		receive_retain(r, recv);
	else
		recv_give(recv);
}

static bool is_association_over(const struct queue *queue)
{
	return queue->controller && atomic_load_explicit(&queue->controller->state,
							 memory_order_acquire) == CONTROLLER_DYING;
}

/* After teardown begins the queue sends no responses, so the host retries on another path instead
 * of trusting a late answer. */
static bool is_serving(const struct queue *queue)
{
	return (queue->state == QUEUE_SERVING || (queue_is_parting(queue) && !queue->qid)) &&
	       !is_association_over(queue);
}

/* ---- PARSE ------------------------------------------------------------------------- */

/* The device takes the data from namespace memory: no buffer, no wait. */
static bool is_direct_read(const struct request *r)
{
	return r->is_direct && r->direction == DIRECTION_C2H;
}

/* For a half of a fused pair, or the command after a first. */
static NOINLINE enum nvme_status meet(struct request *r)
{
	struct request *left = NULL;
	enum nvme_status status;

	status = pair_meet(r, &left);
	if (left)
		request_run(left, REQUEST_RESPOND);
	return parse_has_sgl(r) ? status : NVME_INVALID_FIELD | NVME_DNR;
}

/* The same, once it is parsed. */
static NOINLINE enum nvme_status hold_or_join(struct request *r, enum nvme_status status)
{
	if (request_fuse(r) == NVME_FLAGS_FUSE_FIRST)
		return pair_hold(r, status);
	return status == NVME_OK && r->pair ? r->command->join(r) : status;
}

STEP parse(struct request *r)
{
	bool may_pair = pair_concerns(r);
	enum nvme_status status = NVME_OK;

	r->command = command_find(r->queue->commands, &r->sqe);
	if (may_pair)
		status = meet(r);
	if (status == NVME_OK)
		status = parse_command(r);
	if (status == NVME_OK && r->direction == DIRECTION_NONE && r->sgl.length)
		status = NVME_SGL_LENGTH_INVALID | NVME_DNR;
	if (may_pair)
		status = hold_or_join(r, status);
	if (r->recv &&
	    (status != NVME_OK || r->direction != DIRECTION_H2C || r->sgl.place != SGL_CAPSULE))
		receive_release(r);
	if (status != NVME_OK)
		return request_end(r, status);
	if (may_pair && request_fuse(r) == NVME_FLAGS_FUSE_FIRST)
		return REQUEST_PAIR;
	if (r->ns && throttle_applies(r) && throttle_hold(r))
		return REQUEST_THROTTLED;
	return is_direct_read(r) ? REQUEST_EXECUTE : REQUEST_TAKE_BUFFER;
}

/* ---- TAKE_BUFFER ------------------------------------------------------------------- */

/* Whether in-capsule data must be copied before the command runs. */
static bool must_copy(const struct request *r)
{
	if (r->n_buffer)
		return true;
	if (!r->ns || r->is_direct)
		return false; /* executed at once */
	/* O_DIRECT needs page alignment, and hosts put data at offset 0. */
	return r->sgl.offset || receive_is_scarce(r);
}

/* Waiting requests have been tried before. A new one queues behind those of its own queue, and
 * behind a waiter that the arena owes the next buffer. REQUEST_GONE: it has a buffer. */
static enum request_state find_buffer(struct request *r)
{
	struct arena *arena = request_arena(r);
	bool must_wait = !fair_is_empty(&arena->waiters) &&
			 (arena->is_exhausted || fair_has(&arena->waiters, r->queue));
	enum buffer_result result = BUFFER_TAKEN;

	if (!r->buffer.data)
		result = must_wait ? BUFFER_OVER_SHARE : request_take_buffer(r);
	if (result == BUFFER_TAKEN) {
		r->data = r->buffer.data;
		r->lkey = r->queue->lkey;
		return REQUEST_GONE;
	}
	if (result == BUFFER_NEVER)
		return request_no_buffer(r);
	if (result == BUFFER_NONE)
		arena->is_exhausted = true;
	fair_add(&arena->waiters, &r->turn, r->queue);
	receive_keep(r);
	stall_watch(r->queue->poller);
	return REQUEST_WAIT_BUFFER;
}

/* Its data came in the capsule and was copied. */
static bool has_data(const struct request *r)
{
	return r->buffer.data && !r->recv && !r->pair && r->sgl.place == SGL_CAPSULE;
}

/* The second of a fused pair fetches the first's data before its own. */
static bool must_read_first(const struct request *r)
{
	return r->pair && !r->has_first_data;
}

static enum request_state take_buffer(struct request *r)
{
	if ((r->direction == DIRECTION_NONE && !r->n_buffer) || has_data(r))
		return REQUEST_EXECUTE;
	if (r->recv && !must_copy(r)) {
		r->data = (char *)r->recv->data + r->sgl.offset;
		return REQUEST_EXECUTE;
	}
	if (!r->is_direct) {
		enum request_state next = find_buffer(r);

		if (next != REQUEST_GONE)
			return next;
	}
	if (r->pair)
		r->command->place(r);
	if (r->recv) {
		memcpy(r->data, (char *)r->recv->data + r->sgl.offset, r->length);
		receive_release(r);
		return must_read_first(r) ? REQUEST_READ_DATA : REQUEST_EXECUTE;
	}
	return r->direction == DIRECTION_H2C ? REQUEST_READ_DATA : REQUEST_EXECUTE;
}

/* ---- entering the namespace -------------------------------------------------------- */

/* The usual case: the guard has no rule that could stop or park a command of this poller. */
static bool is_open(const struct pass *pass)
{
	return !guard_flags(pass->guard) && !pass->local->is_closed;
}

/* REQUEST_GONE: it is admitted, or need not be. */
static NOINLINE enum request_state enter(struct request *r)
{
	struct pass *pass = &r->pass;
	enum nvme_status status;

	if (!pass->guard || pass->is_inside)
		return REQUEST_GONE;
	status = r->is_fresh ? NVME_OK : queue_check_path(r->queue, r->ns->nsid);
	if (status != NVME_OK)
		return request_end(r, status);
	if (r->turns == TURN_WANTED)
		return REQUEST_GONE;
	return request_enter(r);
}

/* ---- READ_DATA --------------------------------------------------------------------- */

static enum request_state after_read(struct request *r)
{
	if (!must_read_first(r))
		return REQUEST_EXECUTE;
	r->has_first_data = true;
	return r->sgl.place == SGL_CAPSULE ? REQUEST_EXECUTE : REQUEST_READ_DATA;
}

static void on_read_done(struct work *work, const struct completion *c)
{
	struct request *r = container_of(work, struct request, read_work);

	timing_enter(&r->timing, STAGE_RECEIVE);
	PROBE(rblkd, read_end, r, c->status);
	/* After a failure the queue pair is broken, so no response can be sent. */
	request_run(r, c->status ? REQUEST_FINISH : after_read(r));
}

static void on_sink_read_done(struct work *work, const struct completion *c)
{
	mr_close(&container_of(work, struct request, read_work)->sink);
	on_read_done(work, c);
}

static enum request_state post_read(struct request *r)
{
	bool is_first = must_read_first(r);
	const struct request *whose = is_first ? r->pair : r;
	struct sge sge = {.addr = is_first ? r->buffer.data : r->data,
			  .length = request_chunk(r),
			  .lkey = r->lkey};

	if (UNLIKELY(whose->sgl.place != SGL_HOST)) {
		queue_break(r->queue, "opcode %02x would fetch what is not with its host",
			    r->sqe.opcode);
		return request_end(r, NVME_INTERNAL_ERROR | NVME_DNR);
	}
	r->read_work.done = on_read_done;
	if (UNLIKELY(r->queue->sinks.domain.pd != NULL)) {
		if (sink_open(r->queue, &sge, &r->sink) < 0)
			return request_end(r, NVME_INTERRUPTED);
		r->read_work.done = on_sink_read_done;
	}
	timing_enter(&r->timing, STAGE_FETCH);
	PROBE(rblkd, read_begin, r, r->queue, sge.length);
	qp_read(&r->queue->qp, &r->read_work, sge, whose->sgl.address + r->n_moved, whose->sgl.key);
	return REQUEST_READING;
}

static enum request_state read_data(struct request *r)
{
	struct queue *queue = r->queue;

	if (!(queue->is_resuming || list_is_empty(&queue->read_waiters)) ||
	    qp_n_free(&queue->qp) == 0 || !qp_has_read_credit(&queue->qp)) {
		list_add_tail(&queue->read_waiters, &r->wait);
		return REQUEST_WAIT_READ;
	}
	return post_read(r);
}

/* ---- EXECUTE ----------------------------------------------------------------------- */

/* For a request that has waited: REQUEST_GONE, or the state that ends it. */
static enum request_state may_still_start(struct request *r)
{
	const struct queue *queue = r->queue;

	if (queue_is_dying(queue) || is_association_over(queue))
		return REQUEST_FINISH;
	if (r->ns && controller_is_expired(queue->controller, ticks_now()))
		return request_end(r, NVME_KATO_EXPIRED);
	if (r->ns && !atomic_load_explicit(&queue->controller->is_ready, memory_order_acquire))
		return request_end(r, NVME_ABORTED_SQ_DELETION);
	return REQUEST_GONE;
}

/* The usual case: it has not waited, so nothing can have aborted it, and nothing keeps it from
 * entering its namespace. */
static inline bool enters_at_once(struct request *r)
{
	struct pass *pass = &r->pass;

	if (!r->is_fresh || !pass->guard || r->turns == TURN_WANTED || !is_open(pass))
		return false;
	pass->is_inside = true;
	return true;
}

STEP execute(struct request *r)
{
	enum request_state next = REQUEST_GONE;

	/* The fence: what the old association has not started never starts. */
	if (qp_is_broken(r->queue->qp.state))
		return REQUEST_FINISH;
	if (LIKELY(enters_at_once(r)))
		return r->execute(r);
	if (!r->is_fresh)
		next = may_still_start(r);
	if (next == REQUEST_GONE)
		next = enter(r);
	return next == REQUEST_GONE ? r->execute(r) : next;
}

/* ---- RESPOND ----------------------------------------------------------------------- */

static void wait_for_slots(struct request *r)
{
	struct queue *queue = r->queue;

	timing_enter(&r->timing, STAGE_SEND);
	if (list_is_empty(&queue->short_node)) {
		list_add_tail(&queue->poller->short_queues, &queue->short_node);
		queue->credit_ns = queue->poller->loop.now_ns;
	}
	list_add_tail(&queue->slot_waiters, &r->wait);
}

/* Moves the first of a fused pair to the next state of its second, just before the second. */
static NOINLINE void bring_pair(struct request *r, enum request_state next)
{
	struct request *first = r->pair;

	r->pair = first->pair = NULL;
	request_run(first, next);
}

static void bring_first(struct request *r, enum request_state next)
{
	if (UNLIKELY(r->pair != NULL))
		bring_pair(r, next);
}

/* It holds nothing any more (is_soiled checks that), and may be used again. */
static inline enum request_state retire(struct request *r)
{
	struct queue *queue = r->queue;

	r->state = REQUEST_FREE;
	put_free(r);
	queue_done_one(queue);
	return REQUEST_GONE;
}

STEP respond(struct request *r)
{
	struct queue *queue = r->queue;
	bool has_data = response_has_data(r);

	bring_first(r, REQUEST_RESPOND);
	if (!(r->is_direct && has_data)) /* else the device still reads there */
		pass_leave(&r->pass);
	receive_release(r); /* before the response that lets the host use it again */
	if (!has_data)
		buffer_give(queue->poller, &r->buffer);
	else if (r->buffer.data) /* the disk is done with it */
		buffer_discharge(&r->buffer, HOLDER_NAMESPACE);
	if (queue_is_dying(queue))
		return REQUEST_FINISH;
	if (!(queue->is_resuming || list_is_empty(&queue->slot_waiters)) ||
	    qp_n_free(&queue->qp) <= (unsigned)has_data) { /* a slot for each */
		wait_for_slots(r);
		return REQUEST_WAIT_SLOT;
	}
	if (r->status != NVME_OK) {
		/* Its end, not its host, may be why the command was refused. */
		if (is_association_over(queue))
			return REQUEST_FINISH;
		counter_add(&queue->counters.n_errors, 1);
		if (queue->controller)
			error_log_add(queue->controller, queue->qid, &r->sqe, r->status,
				      r->ns != NULL);
	}
	response_post(r, has_data);
	if (r->ns) /* else the response has it, with the data */
		request_give_namespace(r);
	return retire(r);
}

/* ---- FINISH ------------------------------------------------------------------------ */

/* It dies without a response: gives back what it still holds. */
STEP finish(struct request *r)
{
	bring_first(r, REQUEST_FINISH);
	receive_release(r);
	buffer_give(r->queue->poller, &r->buffer);
	request_give_namespace(r);
	return retire(r);
}

/* ---- the machine ------------------------------------------------------------------- */

/* The request waits, maybe on another thread. From now on other threads must see its pass. */
static enum request_state rest(struct request *r)
{
	r->is_fresh = false;
	pass_show(&r->pass);
	return REQUEST_GONE;
}

/* Direct calls instead of a table. Rare steps, and those with many calls, stay out of it
 * (noinline). */
STEP take_step(struct request *r, enum request_state state)
{
	/* A direct call for the state that every command passes costs less than a jump by the
	 * table. */
	if (LIKELY(state == REQUEST_PARSE))
		return parse(r);
	if (LIKELY(state == REQUEST_RESPOND))
		return respond(r);
	switch (state) {
	case REQUEST_TAKE_BUFFER:
		return take_buffer(r);
	case REQUEST_READ_DATA:
		return read_data(r);
	case REQUEST_EXECUTE:
		return execute(r);
	case REQUEST_FINISH:
		return finish(r);
	case REQUEST_THROTTLED:
	case REQUEST_WAIT_BUFFER:
	case REQUEST_WAIT_READ:
	case REQUEST_READING:
	case REQUEST_PARKED:
	case REQUEST_BACKEND:
	case REQUEST_TURN:
	case REQUEST_PAIR:
	case REQUEST_CONTROL:
	case REQUEST_HELD:
	case REQUEST_WAIT_SLOT:
		return rest(r);
	case REQUEST_PARSE:
	case REQUEST_RESPOND:
	case REQUEST_FREE:
	case REQUEST_GONE:
		break;
	}
	__builtin_unreachable(); /* states_try refuses it */
}

/* Leaves the request where it is: the device, the disk or a line returns it from there. */
static COLD void refuse_move(struct request *r, enum request_state next)
{
	queue_break(r->queue, "opcode %02x, CID %u may not go from state %s to %s", r->sqe.opcode,
		    get_le16(r->sqe.cid), rules[r->state].name, rules[next].name);
}

/* Runs the step of r->state, and those after it, until the request has to wait or is finished. */
static NOINLINE void drive(struct request *r, enum request_state state)
{
	for (;;) {
		enum request_state next = take_step(r, state);

		if (next == REQUEST_GONE)
			return;
		if (!states_try(rules, &r->state, next)) {
			refuse_move(r, next);
			return;
		}
		state = next;
	}
}

void request_run(struct request *r, enum request_state next)
{
	if (next == REQUEST_GONE)
		return;
	if (states_try(rules, &r->state, next))
		drive(r, next);
	else
		refuse_move(r, next);
}

/* ---- a capsule arrives ------------------------------------------------------------- */

void request_on_recv(struct recv *recv, struct qp *qp, const struct completion *c)
{
	struct queue *queue = qp->context;
	struct request *r;

	if (!is_serving(queue)) {
		recv_give(recv);
		return;
	}
	if (c->byte_len < sizeof(struct nvme_sqe)) {
		recv_give(recv);
		queue_fail(queue, "a capsule of %u bytes", c->byte_len);
		return;
	}
	r = take_free(queue);
	if (!r) {
		capsules_add(queue->capsules, queue->counters.n_commands + 1, recv->capsule,
			     ticks_now());
		recv_give(recv);
		queue_fail(queue, "more than %u commands outstanding", queue->n_entries);
		return;
	}
	if (UNLIKELY(is_soiled(r))) {
		recv_give(recv);
		queue_break(queue, "a free command is not free, but in state %s",
			    rules[r->state].name);
		return;
	}
	queue->n_busy++;
	prepare(r, queue, recv, c->byte_len);
	PROBE(rblkd, command_received, r, queue, queue->qid, PROBE_BYTE(r->sqe.opcode),
	      PROBE_LE16(r->sqe.cid), PROBE_LE32(r->sqe.nsid));
	r->state = REQUEST_PARSE; /* it was FREE: is_soiled */
	drive(r, REQUEST_PARSE);
}
