/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control's side of a lane: its connection. The drawing is in lane.h. Control loop
 * only.
 *
 * Happy path: connection_start when the association is live -> resolve -> make completion
 * queue, queue pair, registrations -> the I/O loop attaches them -> connect (CM) -> the
 * I/O loop sends the Connect command -> live.
 *
 * Failures: a live connection that fails takes the whole association with it (on_lost), as the
 * target would (wire reference, section 17). One that cannot be made while the association is live
 * is tried again alone, ever slower: one connection too many for the target must not stop the I/O
 * of the others. Its own I/O is held for ctrl_loss_tmo, and then fails.
 *
 * Undoing: connection_stop disconnects and asks the I/O loop to drain; only its answer
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
#include "initiator/control/path_impl.h"
#include "initiator/control/volume_info.h"
#include "initiator/io/connect.h"
#include "initiator/control/auth_keys.h"
#include "initiator/control/errors.h"
#include "initiator/io/lane_auth.h"
#include "initiator/io/queue.h"
#include "initiator/control/connection.h"
#include "initiator/control/connection_memory.h"
#include "initiator/control/volume_impl.h"

enum {
	RESOLVE_MS = 3000,
	RECV_SPARE = 1,
};
#define ATTEMPT_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define RETRY_MIN_NS	   (100 * NSEC_PER_MSEC)

#define RULE(s, name, next)                                                                        \
	[s] = {name, (next) | STATE_TO(CONNECTION_STOPPING) | STATE_TO(CONNECTION_IDLE)}
static const struct state_rule rules[] = {
	[CONNECTION_IDLE] = {"idle", STATE_TO(CONNECTION_RESOLVING)},
	RULE(CONNECTION_RESOLVING, "resolving", STATE_TO(CONNECTION_ATTACHING)),
	RULE(CONNECTION_ATTACHING, "attaching", STATE_TO(CONNECTION_CONNECTING)),
	RULE(CONNECTION_CONNECTING, "connecting", STATE_TO(CONNECTION_STARTING)),
	RULE(CONNECTION_STARTING, "connect command", STATE_TO(CONNECTION_LIVE)),
	RULE(CONNECTION_LIVE, "live", 0),
	[CONNECTION_STOPPING] = {"stopping", STATE_TO(CONNECTION_IDLE)},
};

static const char *state_name(enum connection_state state)
{
	return rules[state].name;
}

static void move(struct lane *lane, enum connection_state next)
{
	states_move("connection", rules, &lane->connection->state, next);
}

/* ---- failing ---- */

static uint64_t retry_delay_ns(const struct lane *lane)
{
	uint64_t delay = RETRY_MIN_NS << MIN(lane->connection->n_retries, 16u);

	return MIN(delay, lane->path->config.reconnect_delay_ns);
}

/* No path of the queue works, so its I/O is held. */
static bool is_cut_off(const struct volume_queue *queue)
{
	for (unsigned i = 0; i < VOLUME_PATHS_MAX; i++)
		if (queue->lanes[i] && queue->lanes[i]->connection->state == CONNECTION_LIVE)
			return false;
	return true;
}

/* Idle after a failure that was this connection's alone: once more, later. */
static void retry_later(struct lane *lane)
{
	struct volume *volume = lane->path->volume;
	struct connection *connection = lane->connection;
	uint64_t now = clock_ns();

	if (!connection->down_since_ns)
		connection->down_since_ns = now;
	/* I/O that waits for proof must not fail while other queues can write. */
	if (now - connection->down_since_ns > volume->config.ctrl_loss_tmo_ns && !volume->proof.n &&
	    is_cut_off(lane->queue))
		queue_set_mode(lane->queue, QUEUE_FAIL);
	loop_timer_start(volume->control, &connection->retry, retry_delay_ns(lane));
	connection->n_retries++;
}

static bool are_all_idle(const struct volume_queue *queue)
{
	for (unsigned i = 0; i < VOLUME_PATHS_MAX; i++)
		if (queue->lanes[i] && queue->lanes[i]->connection->state != CONNECTION_IDLE)
			return false;
	return true;
}

static void become_idle(struct lane *lane)
{
	struct volume_queue *queue = lane->queue;
	struct path *path = lane->path;

	cm_conn_destroy(lane->connection->conn);
	lane->connection->conn = NULL;
	move(lane, CONNECTION_IDLE);
	if (!queue->is_removing && path->phase == PATH_LIVE)
		retry_later(lane);
	if (queue->is_removing && are_all_idle(queue))
		loop_send(queue->loop, &queue->quit_msg);
	lane->connection->ops->on_idle(path);
}

/* An attempt failed, or a live connection. *error is what is told. */
static void lost(struct lane *lane, const struct error *error)
{
	struct path *path = lane->path;

	if (lane->connection->state == CONNECTION_IDLE ||
	    lane->connection->state == CONNECTION_STOPPING)
		return;
	if (lane->connection->state == CONNECTION_LIVE && path->phase == PATH_LIVE) {
		lane->connection->ops->on_lost(path, error);
		return;
	}
	path->volume->last_error = path->last_error = *error;
	if (!lane->connection->n_retries)
		log_warn(VOLUME_FMT ": queue %u: %s", VOLUME_ARG(path->volume), lane->limits.qid,
			 error->message);
	connection_stop(lane);
}

static void lost_connection(struct lane *lane, const char *reason)
{
	char where[ADDR_STRING_MAX];
	struct error error;

	addr_format(where, &lane->path->config.address);
	if (lane->connection->state == CONNECTION_LIVE)
		error_set(&error, EXIT_UNREACHABLE, NULL, "lost the connection to %s: %s", where,
			  reason);
	else
		error_set(&error, EXIT_UNREACHABLE, NULL,
			  "cannot connect queue %u to %s: %s (while %s)", lane->limits.qid, where,
			  reason, state_name(lane->connection->state));
	lost(lane, &error);
}

static void on_deadline(struct loop_timer *timer)
{
	struct connection *connection = container_of(timer, struct connection, deadline);

	lost_connection(connection->lane, "no answer");
}

static void on_retry(struct loop_timer *timer)
{
	struct connection *connection = container_of(timer, struct connection, retry);

	connection_start(connection->lane);
}

/* ---- making and unmaking ---- */

/* The slots of the send queue for an entry of the submission queue: SENDs linger (command.c); with
 * windows so do binds, and a key may have to be invalidated. */
static unsigned slots_per_entry(const struct lane *lane)
{
	return lane->limits.has_windows ? 4 : 2;
}

static unsigned n_entries(const struct lane *lane, const struct device *device)
{
	const struct controller *c = &lane->path->controller;
	unsigned n = MIN(lane->path->config.queue_size, NVME_CAP_MQES(c->cap) + 1);

	if (c->id.max_commands > 1)
		n = MIN(n, (unsigned)c->id.max_commands);
	n = MIN(n, device->limits.max_qp_wr / slots_per_entry(lane) - 1);
	return MIN(n, device->limits.max_cqe / (slots_per_entry(lane) + 2));
}

static int make_auth(struct lane *lane, const struct domain *domain, struct error *error)
{
	const struct volume_config *config = &lane->path->config;
	int r;

	if (!*config->secret_file && !*config->ctrl_secret_file)
		return 0;
	r = lane_auth_make(lane, domain, error);
	return r < 0 ? r : auth_keys_load(config, lane->auth.keys, error);
}

static void unmake(struct lane *lane)
{
	qp_deinit(&lane->qp);
	lane_auth_unmake(lane);
	connection_deregister_memory(lane);
	lane_cq_give(lane->cq);
	lane->cq = NULL;
}

static unsigned n_queues_on(const struct volume *volume, const struct loop *loop)
{
	unsigned n = 0;

	list_for_each (node, &volume->queues)
		n += list_entry(node, struct volume_queue, node)->loop == loop;
	return n;
}

static int make(struct lane *lane, struct error *error)
{
	struct path *path = lane->path;
	struct cm_conn *conn = lane->connection->conn;
	unsigned n_sq;
	struct qp_config config = {
		.domain = &path->controller.domain,
		.recv_capsule_bytes = sizeof(struct nvme_cqe),
		.inline_bytes = sizeof(struct nvme_sqe),
		.n_sges = QP_SGE_MAX,
	};
	int r;

	if (conn->device != path->controller.domain.device) {
		error_set(error, EXIT_FAILED, NULL,
			  "the way to the target has changed to device %s", conn->device->name);
		return -EXDEV;
	}
	volume_fill_limits(path, &lane->limits);
	n_sq = n_entries(lane, conn->device);
	lane->limits.n_sq = n_sq;
	config.n_recv = n_sq + RECV_SPARE;
	config.send_depth = slots_per_entry(lane) * n_sq + 1;
	connect_fill_data(lane->table.connect_data, path->config.hostid, path->config.hostnqn,
			  path->config.subnqn, path->controller.cntlid);
	r = connection_register_memory(lane, error);
	if (r == 0)
		r = make_auth(lane, &path->controller.domain, error);
	if (r < 0)
		return r;
	r = lane_cq_take(&path->cqs, conn->device, lane->queue->loop,
			 config.n_recv + config.send_depth,
			 n_queues_on(path->volume, lane->queue->loop), &lane->cq);
	if (r == 0) {
		config.cq = &lane->cq->cq;
		r = qp_init(&lane->qp, conn->id, &config);
	}
	if (r < 0)
		error_set(error, EXIT_FAILED, NULL, "%s: cannot make a queue pair: %s",
			  conn->device->name, strerror(-r));
	return r;
}

/* ---- RESOLVING ---- */

static void on_resolved(struct cm_conn *conn)
{
	struct lane *lane = conn->context;
	struct error error;

	if (lane->connection->state != CONNECTION_RESOLVING)
		return;
	if (make(lane, &error) < 0) {
		unmake(lane);
		lost(lane, &error);
		return;
	}
	move(lane, CONNECTION_ATTACHING);
	loop_send(lane->queue->loop, &lane->attach_msg);
}

static void on_established(struct cm_conn *conn, const void *private_data, size_t n);

static void on_cm_failed(struct cm_conn *conn, const struct cm_error *cm)
{
	struct lane *lane = conn->context;
	struct error error;

	error_from_cm(&error, &lane->path->config.address, cm);
	lost(lane, &error);
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

void connection_start(struct lane *lane)
{
	struct path *path = lane->path;
	struct volume *volume = path->volume;
	struct connection *connection = lane->connection;
	const union addr *source = &path->config.host_address;
	struct error error;
	int r;

	if (connection->state != CONNECTION_IDLE || lane->queue->is_removing ||
	    path->phase != PATH_LIVE)
		return;
	move(lane, CONNECTION_RESOLVING);
	connection->retry.on_expiry = on_retry;
	connection->deadline.on_expiry = on_deadline;
	loop_timer_stop(&connection->retry);
	loop_timer_start(volume->control, &connection->deadline, ATTEMPT_TIMEOUT_NS);
	r = cm_resolve(volume->cm, &path->config.address, source->sa.sa_family ? source : NULL,
		       RESOLVE_MS, &cm_ops, lane, &connection->conn);
	if (r < 0) {
		error_from_cm(&error, &path->config.address,
			      &(struct cm_error){.failure = CM_ADDRESS, .error = r});
		lost(lane, &error);
	}
}

/* ---- ATTACHING, CONNECTING ---- */

static void fill_private(const struct lane *lane, struct nvmf_cm_req *ret_req)
{
	connect_fill_private(ret_req, lane->limits.qid, lane->limits.n_sq, lane->limits.n_sq,
			     lane->limits.cntlid);
}

void connection_on_attached(struct loop_msg *msg)
{
	struct lane *lane = container_of(msg, struct lane, attached_msg);
	struct nvmf_cm_req req;
	struct cm_conn *conn = lane->connection->conn;
	int r = lane->attach_result;

	if (lane->connection->state != CONNECTION_ATTACHING)
		return;
	if (r == 0) {
		move(lane, CONNECTION_CONNECTING);
		fill_private(lane, &req);
		r = cm_connect(conn, &req, sizeof(req), conn->device->limits.max_rd_atom);
	}
	if (r < 0)
		lost_connection(lane, strerror(-r));
}

static void on_established(struct cm_conn *conn, const void *private_data, size_t n)
{
	struct lane *lane = conn->context;
	struct nvmf_cm_req req;
	unsigned n_recv;

	if (lane->connection->state != CONNECTION_CONNECTING)
		return;
	move(lane, CONNECTION_STARTING);
	if (connect_parse_private(private_data, n, &n_recv) < 0) {
		lost_connection(lane, "its private data has an unknown format");
		return;
	}
	fill_private(lane, &req);
	connect_describe(&lane->stream, &conn->local, &conn->remote, &req, private_data, n);
	/* One entry of a submission queue stays empty (Base 2.0, 3.3.1). */
	lane->limits.max_in_flight = MIN(lane->limits.n_sq - 1, n_recv);
	if (lane->limits.max_in_flight < 2)
		lane->limits.max_compare_bytes = 0; /* it takes two commands at once */
	loop_send(lane->queue->loop, &lane->start_msg);
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

void connection_on_connected(struct loop_msg *msg)
{
	struct lane *lane = container_of(msg, struct lane, connected_msg);
	struct path *path = lane->path;
	enum nvme_status status = lane->connect_status;
	struct error error;

	if (lane->connection->state != CONNECTION_STARTING)
		return;
	if (status == NVME_OK) {
		move(lane, CONNECTION_LIVE);
		loop_timer_stop(&lane->connection->deadline);
		if (lane->connection->n_retries)
			log_info(VOLUME_FMT ": queue %u: connected", VOLUME_ARG(path->volume),
				 lane->limits.qid);
		lane->connection->n_retries = 0;
		lane->connection->down_since_ns = 0;
		queue_set_mode(lane->queue, QUEUE_HOLD);
		return;
	}
	if (lane->auth.failure != AUTH_HOST_OK)
		error_from_auth(&error, &path->config, lane->auth.failure, lane->auth.explanation);
	else
		error_from_connect(&error, &path->config, lane->limits.qid, status,
				   lane->connect_result);
	if (is_controller_gone(status, lane->connect_result)) {
		lane->connection->ops->on_lost(path, &error);
		return;
	}
	lost(lane, &error);
}

void connection_on_failed(struct loop_msg *msg)
{
	struct lane *lane = container_of(msg, struct lane, failed_msg);

	lost_connection(lane, lane->fail_reason);
}

/* ---- STOPPING ---- */

void connection_stop(struct lane *lane)
{
	struct connection *connection = lane->connection;
	enum connection_state state = connection->state;

	loop_timer_stop(&connection->retry);
	loop_timer_stop(&connection->deadline);
	switch (state) {
	case CONNECTION_IDLE:
	case CONNECTION_STOPPING:
		return;
	case CONNECTION_RESOLVING: /* nothing was made */
		become_idle(lane);
		return;
	case CONNECTION_ATTACHING:
	case CONNECTION_CONNECTING:
	case CONNECTION_STARTING:
	case CONNECTION_LIVE:
		break;
	}
	if (state >= CONNECTION_STARTING)
		cm_disconnect(connection->conn);
	move(lane, CONNECTION_STOPPING);
	loop_send(lane->queue->loop, &lane->stop_msg);
}

void connection_on_stopped(struct loop_msg *msg)
{
	struct lane *lane = container_of(msg, struct lane, stopped_msg);

	lane->path->n_taken_back += lane->n_taken_back;
	unmake(lane);
	become_idle(lane);
}

void connection_stop_all(struct volume_queue *queue)
{
	bool were_idle = are_all_idle(queue);

	for (unsigned i = 0; i < VOLUME_PATHS_MAX; i++)
		if (queue->lanes[i])
			connection_stop(queue->lanes[i]);
	if (were_idle)
		loop_send(queue->loop, &queue->quit_msg);
}
