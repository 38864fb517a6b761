/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control's side of an I/O queue: its connection. The drawing is in queue.h. Control loop
 * only.
 *
 * Happy path: link_start when the association is live -> resolve -> make completion
 * queue, queue pair, registrations -> the I/O loop attaches them -> connect (CM) -> the
 * I/O loop sends the Connect command -> live.
 *
 * Failures: a live link that fails takes the whole association with it (on_lost),
 * as the target would (wire reference, section 17). A link that cannot be connected while
 * the association is live is tried again alone, ever slower: one connection too many for
 * the target must not stop the I/O of the others. Its own I/O is held for ctrl_loss_tmo,
 * and then fails.
 *
 * Undoing: link_stop disconnects and asks the I/O loop to drain; only its answer
 * (stopped) lets us destroy queue pair, registrations and completion queue, in this order
 * (reliability I2).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/states.h"
#include "initiator/io/connect.h"
#include "initiator/control/auth_keys.h"
#include "initiator/control/errors.h"
#include "initiator/io/queue.h"
#include "initiator/control/link.h"
#include "initiator/control/link_memory.h"
#include "initiator/control/volume_impl.h"

enum {
	RESOLVE_MS = 3000,
	RECV_SPARE = 1,
};
#define ATTEMPT_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define RETRY_MIN_NS	   (100 * NSEC_PER_MSEC)

#define RULE(s, name, next) [s] = {name, (next) | STATE_TO(LINK_STOPPING) | STATE_TO(LINK_IDLE)}
static const struct state_rule rules[] = {
	[LINK_IDLE] = {"idle", STATE_TO(LINK_RESOLVING)},
	RULE(LINK_RESOLVING, "resolving", STATE_TO(LINK_ATTACHING)),
	RULE(LINK_ATTACHING, "attaching", STATE_TO(LINK_CONNECTING)),
	RULE(LINK_CONNECTING, "connecting", STATE_TO(LINK_STARTING)),
	RULE(LINK_STARTING, "connect command", STATE_TO(LINK_LIVE)),
	RULE(LINK_LIVE, "live", 0),
	[LINK_STOPPING] = {"stopping", STATE_TO(LINK_IDLE)},
};

const char *link_state_name(unsigned state)
{
	return rules[state].name;
}

static void move(struct volume_queue *queue, enum link_state next)
{
	states_move("link", rules, &queue->link->state, next);
}

/* ---- failing ---- */

static uint64_t retry_delay_ns(const struct volume_queue *queue)
{
	uint64_t delay = RETRY_MIN_NS << MIN(queue->link->n_retries, 16u);

	return MIN(delay, queue->volume->config.reconnect_delay_ns);
}

/* Idle after a failure that was this link's alone: once more, later. */
static void retry_later(struct volume_queue *queue)
{
	struct volume *volume = queue->volume;
	struct link *link = queue->link;
	uint64_t now = clock_ns();

	if (!link->down_since_ns)
		link->down_since_ns = now;
	/* What waits for proof must not fail while other queues can write. */
	if (now - link->down_since_ns > volume->config.ctrl_loss_tmo_ns && !volume->proof.n)
		queue_set_mode(queue, QUEUE_FAIL);
	loop_timer_start(volume->control, &link->retry, retry_delay_ns(queue));
	link->n_retries++;
}

static void become_idle(struct volume_queue *queue)
{
	struct volume *volume = queue->volume;

	cm_conn_destroy(queue->link->conn);
	queue->link->conn = NULL;
	move(queue, LINK_IDLE);
	if (queue->is_removing)
		loop_send(queue->loop, &queue->quit_msg);
	else if (volume->phase == PHASE_LIVE)
		retry_later(queue);
	queue->link->ops->on_idle(volume);
}

/* An attempt failed, or a live link. *error is what is told. */
static void lost(struct volume_queue *queue, const struct error *error)
{
	struct volume *volume = queue->volume;

	if (queue->link->state == LINK_IDLE || queue->link->state == LINK_STOPPING)
		return;
	if (queue->link->state == LINK_LIVE && volume->phase == PHASE_LIVE) {
		queue->link->ops->on_lost(volume, error);
		return;
	}
	volume->last_error = *error;
	if (!queue->link->n_retries)
		log_warn(VOLUME_FMT ": queue %u: %s", VOLUME_ARG(volume), queue->limits.qid,
			 error->message);
	link_stop(queue);
}

static void lost_connection(struct volume_queue *queue, const char *reason)
{
	char where[ADDR_STRING_MAX];
	struct error error;

	addr_format(where, &queue->volume->config.address);
	if (queue->link->state == LINK_LIVE)
		error_set(&error, EXIT_UNREACHABLE, NULL, "lost the connection to %s: %s", where,
			  reason);
	else
		error_set(&error, EXIT_UNREACHABLE, NULL,
			  "cannot connect queue %u to %s: %s (while %s)", queue->limits.qid, where,
			  reason, link_state_name(queue->link->state));
	lost(queue, &error);
}

static void on_deadline(struct loop_timer *timer)
{
	struct link *link = container_of(timer, struct link, deadline);

	lost_connection(link->queue, "no answer");
}

static void on_retry(struct loop_timer *timer)
{
	struct link *link = container_of(timer, struct link, retry);

	link_start(link->queue);
}

/* ---- making and unmaking ---- */

/* Of the send queue, for an entry of the submission queue: SENDs linger (command.c); with
 * windows so do binds, and a key may have to be invalidated. */
static unsigned slots_per_entry(const struct volume_queue *queue)
{
	return queue->limits.has_windows ? 4 : 2;
}

static unsigned n_entries(const struct volume_queue *queue, const struct device *device)
{
	const struct controller *c = &queue->volume->controller;
	unsigned n = MIN(queue->volume->config.queue_size, NVME_CAP_MQES(c->cap) + 1);

	if (c->id.max_commands > 1)
		n = MIN(n, (unsigned)c->id.max_commands);
	n = MIN(n, device->limits.max_qp_wr / slots_per_entry(queue) - 1);
	return MIN(n, device->limits.max_cqe / (slots_per_entry(queue) + 2));
}

static int make_auth(struct volume_queue *queue, const struct domain *domain, struct error *error)
{
	const struct volume_config *config = &queue->volume->config;
	int r;

	if (!*config->secret_file && !*config->ctrl_secret_file)
		return 0;
	r = queue_auth_make(queue, domain, error);
	return r < 0 ? r : auth_keys_load(config, queue->auth.keys, error);
}

static void unmake(struct volume_queue *queue)
{
	qp_deinit(&queue->qp);
	queue_auth_unmake(queue);
	link_deregister_memory(queue);
	queue_cq_give(queue->cq);
	queue->cq = NULL;
}

static unsigned n_queues_on(const struct volume *volume, const struct loop *loop)
{
	unsigned n = 0;

	list_for_each (node, &volume->queues)
		n += list_entry(node, struct volume_queue, node)->loop == loop;
	return n;
}

static int make(struct volume_queue *queue, struct error *error)
{
	struct volume *volume = queue->volume;
	struct cm_conn *conn = queue->link->conn;
	unsigned n_sq;
	struct qp_config config = {
		.domain = &volume->controller.domain,
		.recv_capsule_bytes = sizeof(struct nvme_cqe),
		.inline_bytes = sizeof(struct nvme_sqe),
		.n_sges = QP_SGE_MAX,
	};
	int r;

	if (conn->device != volume->controller.domain.device) {
		error_set(error, EXIT_FAILED, NULL,
			  "the way to the target has changed to device %s", conn->device->name);
		return -EXDEV;
	}
	volume_fill_limits(volume, &queue->limits);
	n_sq = n_entries(queue, conn->device);
	queue->limits.n_sq = n_sq;
	config.n_recv = n_sq + RECV_SPARE;
	config.send_depth = slots_per_entry(queue) * n_sq + 1;
	connect_fill_data(queue->table.connect_data, volume->config.hostid, volume->config.hostnqn,
			  volume->config.subnqn, volume->controller.cntlid);
	r = link_register_memory(queue, error);
	if (r == 0)
		r = make_auth(queue, &volume->controller.domain, error);
	if (r < 0)
		return r;
	r = queue_cq_take(&volume->cqs, conn->device, queue->loop,
			  config.n_recv + config.send_depth, n_queues_on(volume, queue->loop),
			  &queue->cq);
	if (r == 0) {
		config.cq = &queue->cq->cq;
		r = qp_init(&queue->qp, conn->id, &config);
	}
	if (r < 0)
		error_set(error, EXIT_FAILED, NULL, "%s: cannot make a queue pair: %s",
			  conn->device->name, strerror(-r));
	return r;
}

/* ---- RESOLVING ---- */

static void on_resolved(struct cm_conn *conn)
{
	struct volume_queue *queue = conn->context;
	struct error error;

	if (queue->link->state != LINK_RESOLVING)
		return;
	if (make(queue, &error) < 0) {
		unmake(queue);
		lost(queue, &error);
		return;
	}
	move(queue, LINK_ATTACHING);
	loop_send(queue->loop, &queue->attach_msg);
}

static void on_established(struct cm_conn *conn, const void *private_data, size_t n);

static void on_cm_failed(struct cm_conn *conn, const struct cm_error *cm)
{
	struct volume_queue *queue = conn->context;
	struct error error;

	error_from_cm(&error, &queue->volume->config.address, cm);
	lost(queue, &error);
}

static void on_disconnected(struct cm_conn *conn)
{
	lost_connection(conn->context, error_of_disconnect(conn));
}

static const struct cm_conn_ops cm_ops = {
	.on_resolved = on_resolved,
	.on_established = on_established,
	.on_failed = on_cm_failed,
	.on_disconnected = on_disconnected,
};

void link_start(struct volume_queue *queue)
{
	struct volume *volume = queue->volume;
	struct link *link = queue->link;
	const union addr *source = &volume->config.host_address;
	struct error error;
	int r;

	if (link->state != LINK_IDLE || queue->is_removing || volume->phase != PHASE_LIVE)
		return;
	move(queue, LINK_RESOLVING);
	link->retry.on_expiry = on_retry;
	link->deadline.on_expiry = on_deadline;
	loop_timer_stop(&link->retry);
	loop_timer_start(volume->control, &link->deadline, ATTEMPT_TIMEOUT_NS);
	r = cm_resolve(volume->cm, &volume->config.address, source->sa.sa_family ? source : NULL,
		       RESOLVE_MS, &cm_ops, queue, &link->conn);
	if (r < 0) {
		error_from_cm(&error, &volume->config.address,
			      &(struct cm_error){.failure = CM_ADDRESS, .error = r});
		lost(queue, &error);
	}
}

/* ---- ATTACHING, CONNECTING ---- */

static void fill_private(const struct volume_queue *queue, struct nvmf_cm_req *ret_req)
{
	connect_fill_private(ret_req, queue->limits.qid, queue->limits.n_sq, queue->limits.n_sq,
			     queue->limits.cntlid);
}

void link_on_attached(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, attached_msg);
	struct nvmf_cm_req req;
	struct cm_conn *conn = queue->link->conn;
	int r = queue->attach_result;

	if (queue->link->state != LINK_ATTACHING)
		return;
	if (r == 0) {
		move(queue, LINK_CONNECTING);
		fill_private(queue, &req);
		r = cm_connect(conn, &req, sizeof(req), conn->device->limits.max_rd_atom);
	}
	if (r < 0)
		lost_connection(queue, strerror(-r));
}

static void on_established(struct cm_conn *conn, const void *private_data, size_t n)
{
	struct volume_queue *queue = conn->context;
	struct nvmf_cm_req req;
	unsigned n_recv;

	if (queue->link->state != LINK_CONNECTING)
		return;
	move(queue, LINK_STARTING);
	if (connect_parse_private(private_data, n, &n_recv) < 0) {
		lost_connection(queue, "its private data has an unknown format");
		return;
	}
	fill_private(queue, &req);
	connect_describe(&queue->stream, &conn->local, &conn->remote, &req, private_data, n);
	/* One entry of a submission queue stays empty (Base 2.0, 3.3.1). */
	queue->limits.max_in_flight = MIN(queue->limits.n_sq - 1, n_recv);
	loop_send(queue->loop, &queue->start_msg);
}

/* ---- STARTING, LIVE ---- */

/* The target has forgotten our controller: connecting this queue again would not help. */
static bool is_controller_gone(enum nvme_status status, uint64_t result)
{
	if (nvme_status_code(status) == NVME_COMMAND_SEQUENCE)
		return true;
	return nvme_status_code(status) == NVME_CONNECT_INVALID_PARAM &&
	       result & NVMF_CONNECT_IATTR_DATA &&
	       (result & 0xffff) == offsetof(struct nvmf_connect_data, cntlid);
}

void link_on_connected(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, connected_msg);
	struct volume *volume = queue->volume;
	enum nvme_status status = queue->connect_status;
	struct error error;

	if (queue->link->state != LINK_STARTING)
		return;
	if (status == NVME_OK) {
		move(queue, LINK_LIVE);
		loop_timer_stop(&queue->link->deadline);
		if (queue->link->n_retries)
			log_info(VOLUME_FMT ": queue %u: connected", VOLUME_ARG(volume),
				 queue->limits.qid);
		queue->link->n_retries = 0;
		queue->link->down_since_ns = 0;
		queue_set_mode(queue, QUEUE_HOLD);
		return;
	}
	if (queue->auth.failure != AUTH_HOST_OK)
		error_from_auth(&error, &volume->config, queue->auth.failure,
				queue->auth.explanation);
	else
		error_from_connect(&error, &volume->config, queue->limits.qid, status,
				   queue->connect_result);
	if (is_controller_gone(status, queue->connect_result)) {
		queue->link->ops->on_lost(volume, &error);
		return;
	}
	lost(queue, &error);
}

void link_on_failed(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, failed_msg);

	lost_connection(queue, queue->fail_reason);
}

/* ---- STOPPING ---- */

void link_stop(struct volume_queue *queue)
{
	struct link *link = queue->link;
	unsigned state = link->state;

	loop_timer_stop(&link->retry);
	loop_timer_stop(&link->deadline);
	switch (state) {
	case LINK_IDLE:
	case LINK_STOPPING:
		return;
	case LINK_RESOLVING: /* nothing was made */
		become_idle(queue);
		return;
	}
	if (state >= LINK_STARTING)
		cm_disconnect(link->conn);
	move(queue, LINK_STOPPING);
	loop_send(queue->loop, &queue->stop_msg);
}

void link_on_stopped(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, stopped_msg);

	unmake(queue);
	become_idle(queue);
}
