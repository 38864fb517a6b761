/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues: connections from the connect request to the last freed byte; see queue.h.
 *
 * The way in: control allocates all that the queue will ever need and makes the queue pair; the
 * poller posts receives; control accepts. (A capsule may arrive before the CM says "established":
 * the poller does not mind, and control tells the CM.) Then Connect must come within the limit.
 *
 * The way out starts in many places and is always this: control marks the queue DYING, tells the
 * peer, sends `die`; the poller starts nothing any more, drops who waits, moves the queue pair to
 * the error state; when every work request is back and no backend I/O is in flight it lets go and
 * sends `dead`; control destroys queue pair, connection and memory, in that order. A poller that
 * sees something wrong sends `fail` and goes on until told to die.
 *
 * Messages of one thread arrive in order, and each is used once (connect goes back and forth), so
 * none can outlive the queue: `dead` is the last that a poller sends, and `die` the last it gets,
 * but for answers that it waits for (n_busy).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/probe.h"
#include "base/rcu.h"
#include "base/states.h"
#include "target/export/ana.h"
#include "target/association/auth/auth.h"
#include "target/association/auth/turn.h"
#include "target/association/controller.h"
#include "target/engine/portal.h"
#include "target/engine/queue.h"
#include "target/engine/request_turn.h"
#include "target/engine/request.h"
#include "target/engine/response.h"
#include "target/engine/capsules.h"
#include "target/engine/hosts.h"
#include "transport/wire/rdma_cm.h"

enum {
	ADMIN_SPARE_RECV = 1,
	CACHE_LINE = 64,
	QUEUE_FREED = QUEUE_DYING + 1,
};

static const struct state_rule rules[] = {
	[QUEUE_ATTACHING] = {"attaching", STATE_TO(QUEUE_CONNECTING) | STATE_TO(QUEUE_DYING)},
	[QUEUE_CONNECTING] = {"connecting", STATE_TO(QUEUE_LIVE) | STATE_TO(QUEUE_DYING)},
	[QUEUE_LIVE] = {"live", STATE_TO(QUEUE_DYING)},
	[QUEUE_DYING] = {"dying", STATE_TO(QUEUE_FREED)},
	[QUEUE_FREED] = {"freed", 0},
};

const char *queue_state_name(const struct queue *queue)
{
	return rules[queue->state].name;
}

/* What a host's connection and commands drive: a move that may not be ends the queue. */
static bool move_to(struct queue *queue, enum queue_state next)
{
	if (states_try(rules, &queue->state, next))
		return true;
	queue_break_at_control(queue, next == QUEUE_LIVE ? "it may not become live in its state"
							 : "it may not be accepted in its state");
	return false;
}

void queue_set_live(struct queue *queue)
{
	if (!move_to(queue, QUEUE_LIVE))
		return;
	loop_timer_stop(&queue->connect_timer);
}

void queue_admit(struct queue *queue)
{
	queue->target->n_pending -= queue->is_pending;
	queue->is_pending = false;
}

/* ---- control: the way in ------------------------------------------------------------------ */

void queue_refuse(struct cm_conn *conn, enum nvmf_cm_status status)
{
	struct nvmf_cm_rej rej = {.recfmt = put_le16(0), .sts = put_le16((uint16_t)status)};

	cm_reject(conn, &rej, sizeof(rej));
}

static void on_established(struct cm_conn *conn, const void *private_data, size_t n)
{
	/* Nothing to wait for: the queue pair could send and receive since it was accepted. */
}

static void on_failed(struct cm_conn *conn, const struct cm_error *error)
{
	struct queue *queue = conn->context;

	queue->is_peer_gone = true;
	queue_kill(queue, "the host gave up connecting");
}

static void on_disconnected(struct cm_conn *conn)
{
	struct queue *queue = conn->context;

	queue->is_peer_gone = true;
	queue_kill(queue,
		   cm_removed_device(conn) ? "its RDMA device went away" : "the host disconnected");
}

static const struct cm_conn_ops conn_ops = {
	.on_established = on_established,
	.on_failed = on_failed,
	.on_disconnected = on_disconnected,
};

static void on_connect_timeout(struct loop_timer *timer)
{
	struct queue *queue = container_of(timer, struct queue, connect_timer);

	if (queue->state == QUEUE_LIVE) {
		auth_on_timeout(queue);
		return;
	}
	if (log_limit_pass(&queue->target->refusals, 5))
		log_warn("portal %s: %s connected but sent no Connect command in time",
			 queue->portal->name, queue->remote);
	queue_kill(queue, "no Connect command in time");
}

static size_t requests_offset(void)
{
	return align_up(sizeof(struct queue), CACHE_LINE);
}

/* A queue, its requests and its responses are one mapping: all that it will ever need is there, but
 * a page only from when it is first used. Most hosts send fewer commands at once than they may. */
static size_t mapping_bytes(unsigned n_entries)
{
	return requests_offset() + n_entries * sizeof(struct request) +
	       queue_send_depth(n_entries) * sizeof(struct response);
}

static struct queue *map_memory(unsigned n_entries)
{
	struct queue *queue = mmap(NULL, mapping_bytes(n_entries), PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (queue == MAP_FAILED)
		return NULL;
	queue->n_entries = n_entries;
	queue->n_slots = queue_send_depth(n_entries);
	queue->requests = (struct request *)((char *)queue + requests_offset());
	queue->responses = (struct response *)(queue->requests + n_entries);
	return queue;
}

static void free_memory(struct queue *queue)
{
	sinks_close(queue);
	poller_device_give_receives(queue->pd, queue->n_shared);
	auth_release(queue);
	capsules_give(queue->target, queue->capsules);
	munmap(queue, mapping_bytes(queue->n_entries));
}

/* Admin queues have receives of their own: data can never starve them. */
static int make_qp(struct queue *queue)
{
	struct target *target = queue->target;
	bool is_shared = queue->qid != 0 && queue->pd->ring.n_max;
	struct qp_config config = {
		.cq = &queue->pd->cq,
		.shared_ring = is_shared ? &queue->pd->ring : NULL,
		.n_recv = queue->n_entries + ADMIN_SPARE_RECV,
		.recv_capsule_bytes = sizeof(struct nvme_sqe),
		.recv_data_bytes = (uint32_t)target->config->tuning.inline_data,
		.send_depth = queue->n_slots,
		.n_sges = 1,
		.inline_bytes = sizeof(struct nvme_cqe),
	};

	int r = sinks_open(queue);

	if (r == 0 && is_shared)
		r = poller_device_take_receives(queue->pd, queue->n_entries);
	if (r < 0)
		return r;
	config.domain = sinks_domain(queue);
	queue->n_shared = is_shared ? queue->n_entries : 0;
	return qp_init(&queue->qp, queue->conn->id, &config);
}

static void attach(struct loop_msg *msg);
static void die(struct loop_msg *msg);
static void finish_up(struct loop_msg *msg);
static void on_fail(struct loop_msg *msg);
static void on_dead(struct loop_msg *msg);

static struct queue *queue_new(struct portal *portal, struct cm_conn *conn,
			       const struct cm_queue_request *wish)
{
	struct target *target = portal->target;
	struct queue *queue = map_memory(wish->n_sq);

	if (!queue)
		return NULL;
	queue->target = target;
	queue->portal = portal;
	queue->poller = pollers_choose(target);
	request_turn_init(queue);
	queue->pd = &queue->poller->devices[conn->device->index];
	queue->qid = wish->qid;
	queue->created_ns = clock_ns();
	queue->conn = conn;
	addr_format(queue->remote, &conn->remote);
	queue->capsules = capsules_take(target, queue->qid, queue->remote);
	queue->connect_timer.on_expiry = on_connect_timeout;
	queue->attach.run = attach;
	queue->die.run = die;
	queue->finish.run = finish_up;
	queue->fail.run = on_fail;
	queue->dead.run = on_dead;
	queue->connect.queue = queue;
	list_init(&queue->node);
	list_init(&queue->member_node);
	list_init(&queue->connect.node);
	list_init(&queue->slot_waiters);
	list_init(&queue->read_waiters);
	list_init(&queue->short_node);
	list_init(&queue->poller_node);
	list_init(&queue->proof.node);
	return queue;
}

void queue_open(struct portal *portal, struct cm_conn *conn, const struct cm_queue_request *wish,
		unsigned max_reads)
{
	struct target *target = portal->target;
	struct queue *queue = queue_new(portal, conn, wish);
	int r = queue && queue->capsules ? make_qp(queue) : -ENOMEM;

	if (r < 0) {
		if (log_limit_pass(&target->refusals, 5))
			log_warn("portal %s: cannot take another connection: %s", portal->name,
				 strerror(-r));
		queue_refuse(conn, NVMF_CM_NO_RESOURCES);
		if (queue)
			free_memory(queue);
		return;
	}
	queue->qp.max_reads = max_reads;
	queue->max_reads = max_reads;
	conn->ops = &conn_ops;
	conn->context = queue;
	list_add_tail(&target->queues, &queue->node);
	target->n_queues++;
	queue->is_pending = true;
	target->n_pending++;
	queue->poller->n_queues++;
	pollers_take_queue(target, conn->device);
	loop_send(&queue->poller->loop, &queue->attach);
}

static void on_attached(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, attach);
	struct nvmf_cm_rep rep = {.recfmt = put_le16(0),
				  .crqsize = put_le16((uint16_t)queue->n_entries)};

	if (queue->state == QUEUE_DYING)
		return;
	if (queue->attach_error < 0) {
		queue_kill(queue, "its receives cannot be posted");
		return;
	}
	if (!move_to(queue, QUEUE_CONNECTING))
		return;
	loop_timer_start(&queue->target->loop, &queue->connect_timer,
			 queue->target->config->limits.connect_timeout_ns);
	queue->is_accepted = true;
	if (cm_accept(queue->conn, &rep, sizeof(rep), queue->max_reads) < 0)
		queue_kill(queue, "it cannot be accepted");
}

/* ---- control: the way out ----------------------------------------------------------------- */

void queue_kill(struct queue *queue, const char *why)
{
	struct controller *controller = queue->member_of;

	if (queue->state == QUEUE_DYING)
		return;
	states_move("queue", rules, &queue->state, QUEUE_DYING);
	queue->why = why;
	PROBE(rblkd, queue_ended, queue, queue->qid, why);
	loop_timer_stop(&queue->connect_timer);
	fence_cancel(queue);
	if (queue->is_accepted)
		cm_disconnect(queue->conn);
	loop_send(&queue->poller->loop, &queue->die);
	turn_cancel(queue);
	if (controller && queue->qid == 0)
		controller_kill(controller, why);
}

void queue_finish(struct queue *queue, const char *why)
{
	if (queue->state != QUEUE_LIVE) {
		queue_kill(queue, why);
		return;
	}
	if (queue->is_finish_sent)
		return;
	queue->is_finish_sent = true;
	queue->finish_why = why;
	loop_send(&queue->poller->loop, &queue->finish);
}

/* A wrong key or a broken protocol may be an attack: it is said, whatever becomes of the host. */
static void log_fault(struct queue *queue)
{
	const struct controller *controller = queue->member_of;

	if (!log_limit_pass(&queue->target->refusals, 5))
		return;
	if (controller)
		log_warn("host %s: queue %u of controller %u: %s",
			 hostnqn_label(controller->hostnqn), queue->qid, controller->id,
			 queue->fail_reason);
	else
		log_warn("portal %s: %s: %s", queue->portal->name, queue->remote,
			 queue->fail_reason);
}

static void on_fail(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, fail);

	/* Of an admin queue, the line about the end of the association says it. */
	if (queue->is_fault && queue->state != QUEUE_DYING &&
	    (queue->qid != 0 || !queue->member_of || queue->member_of->is_unproven))
		log_fault(queue);
	if (queue->is_fault && queue->state != QUEUE_DYING)
		capsules_log(queue, &queue->target->fault_capsules);
	queue_kill(queue, queue->fail_reason);
}

static void on_dead(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, dead);
	struct target *target = queue->target;
	const struct device *device = queue->pd->device;

	states_move("queue", rules, &queue->state, QUEUE_FREED);
	defect_forget(queue);
	qp_deinit(&queue->qp);
	if (queue->is_accepted || queue->is_peer_gone)
		cm_conn_destroy(queue->conn);
	else
		queue_refuse(queue->conn, NVMF_CM_NO_RESOURCES);
	list_remove(&queue->node);
	target->n_queues--;
	target->n_pending -= queue->is_pending;
	queue->poller->n_queues--;
	host_stats_detach(queue);
	controller_remove_queue(queue);
	free_memory(queue);
	pollers_give_queue(target, device);
	fence_check(target);
	target_check_stopped(target);
}

/* ---- its poller ----------------------------------------------------------------------------- */

static void send_fail(struct queue *queue, bool is_fault)
{
	queue->has_failed = queue->is_closed = true;
	queue->is_fault = is_fault;
	loop_send(&queue->target->loop, &queue->fail);
}

void queue_fail(struct queue *queue, const char *fmt, ...)
{
	va_list args;

	if (queue->has_failed)
		return;
	va_start(args, fmt);
	vsnprintf(queue->fail_reason, sizeof(queue->fail_reason), fmt, args);
	va_end(args);
	capsules_keep_last(queue->capsules);
	send_fail(queue, true);
}

static void on_broken(struct qp *qp, const struct completion *c)
{
	struct queue *queue = qp->context;

	if (!completion_is_flush(c)) {
		queue_fail(queue, "a transfer failed: %s", completion_string(c));
		return;
	}
	/* Somebody else moved it to the error state: the peer left, or we disconnect. */
	if (queue->has_failed)
		return;
	snprintf(queue->fail_reason, sizeof(queue->fail_reason), "the connection broke");
	send_fail(queue, false);
}

static void on_drained(struct qp *qp)
{
	struct queue *queue = qp->context;

	queue->is_drained = true;
	queue->n_busy++;
	queue_done_one(queue);
}

static void on_credit(struct qp *qp)
{
	struct queue *queue = qp->context;

	request_resume(queue);
	if (queue->is_finishing) {
		queue->n_busy++;
		queue_done_one(queue);
	}
}

static_assert(QUEUE_DEPTH_MAX * sizeof(struct nvme_cqe) <= BLOCK_MIN,
	      "the responses of the largest queue fit: queue_send_depth");

/* Without inline data responses leave from registered memory. */
static int place_responses(struct queue *queue)
{
	if (queue->qp.max_inline >= sizeof(struct nvme_cqe))
		return 0;
	return buffer_take(&queue->poller->admin, queue->n_slots * sizeof(struct nvme_cqe),
			   &queue->cqes) == BUFFER_TAKEN
		       ? 0
		       : -ENOBUFS;
}

static void attach(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, attach);
	struct qp *qp = &queue->qp;

	qp->context = queue;
	qp->on_broken = on_broken;
	qp->on_drained = on_drained;
	qp->on_credit = on_credit;
	if (qp->own_ring.n_max)
		qp->own_ring.on_recv = request_on_recv;
	queue->attach_error = place_responses(queue);
	if (queue->attach_error == 0)
		queue->attach_error = qp_attach(qp);
	if (qp->is_attached)
		list_add_tail(&queue->poller->queues, &queue->poller_node);
	queue->attach.run = on_attached;
	loop_send(&queue->target->loop, &queue->attach);
}

static void die(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, die);

	queue->is_dying = queue->is_closed = true;
	queue->n_busy++; /* until the end of this function */
	request_abort_waiting(queue);
	if (queue->qid == 0 && queue->controller)
		controller_detach(queue->controller);
	if (queue->qp.is_attached)
		qp_drain(&queue->qp);
	else
		queue->is_drained = true;
	queue_done_one(queue);
}

/* Nobody's fault: no warning. */
static void end_finished(struct queue *queue)
{
	if (queue->has_failed)
		return;
	snprintf(queue->fail_reason, sizeof(queue->fail_reason), "%s", queue->finish_why);
	send_fail(queue, false);
}

static void check_finished(struct queue *queue)
{
	if (queue->n_busy == queue->n_held && qp_is_quiet(&queue->qp))
		end_finished(queue);
}

static void finish_up(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, finish);

	if (queue->is_dying)
		return;
	queue->is_finishing = queue->is_closed = true;
	check_finished(queue);
}

static __attribute__((noinline)) void check_over(struct queue *queue)
{
	if (queue->is_finishing)
		check_finished(queue);
	if (!queue->is_dying || !queue->is_drained || queue->n_busy)
		return;
	if (queue->qp.is_attached)
		qp_detach(&queue->qp);
	list_remove(&queue->poller_node);
	buffer_give(queue->poller, &queue->cqes);
	loop_send(&queue->target->loop, &queue->dead);
}

void queue_done_one(struct queue *queue)
{
	check(queue->n_busy > 0);
	queue->n_busy--;
	if (__builtin_expect(queue->is_closed, 0))
		check_over(queue);
}

static __attribute__((noinline)) const struct subsystem *
find_subsystem(struct queue *queue, const struct snapshot *snapshot)
{
	struct subsystem_ref *ref = &queue->subsystem_ref;

	ref->subsystem = snapshot_find(snapshot, queue->controller->subnqn);
	ref->generation = snapshot->generation;
	return ref->subsystem;
}

const struct subsystem *queue_subsystem(struct queue *queue)
{
	const struct snapshot *snapshot = rcu_get(&queue->target->snapshot);
	const struct subsystem_ref *ref = &queue->subsystem_ref;

	if (__builtin_expect(ref->generation == snapshot->generation && ref->subsystem, 1))
		return ref->subsystem;
	return find_subsystem(queue, snapshot);
}

const struct ana *queue_ana(struct queue *queue)
{
	const struct subsystem *subsystem = queue_subsystem(queue);

	return subsystem ? rcu_get(&subsystem->ana) : NULL;
}

enum nvme_status queue_check_path(struct queue *queue, uint32_t nsid)
{
	const struct ana *ana = queue_ana(queue);

	return ana ? ana_check(ana, nsid, queue->controller->portal->index) : NVME_OK;
}
