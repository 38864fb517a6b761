/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager; see cm.h. It has one event channel, on the control loop.
 *
 * An event is copied and acknowledged before its handler runs. rdma_destroy_id blocks until all
 * events of its id are acknowledged, so a handler could not destroy its connection otherwise.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <rdma/rdma_cma.h>

#include "base/bits.h"
#include "base/check.h"
#include "transport/cm.h"
#include "transport/wire/rdma_cm.h"

enum {
	RNR_RETRY = 7, /* without end: a receive will be posted (wire reference; SPDK issue 2429) */
	RETRY = 7,
	MIN_RNR_TIMER = 12,  /* 0.64 ms; the CM's own default means 655 ms */
	RESOURCES_MAX = 255, /* the CM's field is a byte */
};

struct cm {
	/* Thread: control */
	struct rdma_event_channel *channel;
	struct loop_fd lfd;
};

static struct cm_conn *conn_of(struct rdma_cm_id *id)
{
	return container_of((struct cm_owner *)id->context, struct cm_conn, owner);
}

static struct cm_listener *listener_of(struct rdma_cm_id *id)
{
	return container_of((struct cm_owner *)id->context, struct cm_listener, owner);
}

static int last_error(void)
{
	return errno ? -errno : -EIO;
}

/* ---- connections ---- */

struct loop *cm_control_loop(const struct rdma_cm_id *id)
{
	const struct cm_conn *conn = container_of((struct cm_owner *)id->context, struct cm_conn,
						  owner);

	return conn->cm->lfd.loop;
}

static struct cm_conn *conn_new(struct cm *cm, struct rdma_cm_id *id)
{
	struct cm_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->cm = cm;
	conn->id = id;
	id->context = &conn->owner;
	return conn;
}

static void take_addresses(struct cm_conn *conn)
{
	const struct sockaddr *local = rdma_get_local_addr(conn->id);
	const struct sockaddr *remote = rdma_get_peer_addr(conn->id);

	memcpy(&conn->local, local,
	       local->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					    : sizeof(struct sockaddr_in));
	memcpy(&conn->remote, remote,
	       remote->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					     : sizeof(struct sockaddr_in));
}

static void fail(struct cm_conn *conn, enum cm_failure failure, int error)
{
	struct cm_error e = {.failure = failure, .error = error};

	if (conn->has_failed || conn->is_disconnected)
		return;
	conn->has_failed = true;
	conn->ops->on_failed(conn, &e);
}

static void disconnected(struct cm_conn *conn)
{
	if (conn->is_disconnected || conn->has_failed)
		return;
	conn->is_disconnected = true;
	if (conn->ops && conn->ops->on_disconnected)
		conn->ops->on_disconnected(conn);
}

static void on_conn_device(struct device_user *user)
{
	disconnected(container_of(user, struct cm_conn, user));
}

/* 0; or -errno: the device is unknown, or it is being removed. */
static int take_device(struct cm_conn *conn)
{
	int r = device_hold(&conn->user, conn->id->verbs);

	conn->user.on_removed = on_conn_device;
	conn->device = conn->user.device;
	return r;
}

static void on_rejected(struct cm_conn *conn, int status, const uint8_t *data, size_t n)
{
	struct cm_error e = {.failure = CM_REJECTED, .reason = status};
	struct nvmf_cm_rej rej;

	/* iWARP has no reasons: it reports -ECONNREFUSED, with the data of the consumer, if any. */
	if (n >= sizeof(rej) && (status == CM_REASON_CONSUMER || status < 0)) {
		memcpy(&rej, data, sizeof(rej));
		if (get_le16(rej.recfmt) == 0)
			e.nvmf_status = get_le16(rej.sts);
	}
	conn->has_failed = true;
	conn->ops->on_failed(conn, &e);
}

/* Best effort: the CM sets the slowest RNR timer, with which a short burst costs 655 ms. */
static void set_rnr_timer(struct cm_conn *conn)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .min_rnr_timer = MIN_RNR_TIMER};

	if (conn->id->qp && !conn->device->limits.is_iwarp &&
	    ibv_modify_qp(conn->id->qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER))
		log_debug("%s: cannot set the RNR timer", conn->device->name);
}

static void on_addr_resolved(struct cm_conn *conn, unsigned timeout_ms)
{
	/* librdmacm uses the device from here on, so the connection must hold it and release it. */
	int r = take_device(conn);

	if (r < 0)
		fail(conn, CM_CONNECT, r);
	else if (rdma_resolve_route(conn->id, (int)timeout_ms))
		fail(conn, CM_ROUTE, last_error());
}

static void on_route_resolved(struct cm_conn *conn)
{
	if (conn->is_disconnected)
		return; /* the device is already removed */
	take_addresses(conn);
	conn->ops->on_resolved(conn);
}

static void on_request(struct cm *cm, struct cm_listener *listener, struct rdma_cm_id *id,
		       const struct cm_request *request)
{
	struct cm_conn *conn = conn_new(cm, id);

	if (!conn || take_device(conn) < 0) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		free(conn);
		return;
	}
	take_addresses(conn);
	listener->on_request(listener, conn, request);
}

/* ---- events ---- */

enum {
	RESOLVE_ROUTE_MS = 3000,
};

struct event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id, *listen_id;
	struct cm_request request;
	uint8_t data[256];
};

/* Copies the data of an event that handlers use, and acknowledges the event. */
static void take_event(struct rdma_cm_event *ev, struct event *out)
{
	*out = (struct event){
		.type = ev->event, .status = ev->status, .id = ev->id, .listen_id = ev->listen_id};
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST || ev->event == RDMA_CM_EVENT_ESTABLISHED ||
	    ev->event == RDMA_CM_EVENT_REJECTED) {
		size_t n = ev->param.conn.private_data ? ev->param.conn.private_data_len : 0;

		if (n)
			memcpy(out->data, ev->param.conn.private_data, MIN(n, sizeof(out->data)));
		out->request = (struct cm_request){
			.private_data = out->data,
			.n_private = MIN(n, sizeof(out->data)),
			.initiator_depth = ev->param.conn.initiator_depth,
			.responder_resources = ev->param.conn.responder_resources};
	}
	rdma_ack_cm_event(ev);
}

/* Notifies all users of the device now, ahead of the events of their own. */
static void on_conn_removal(struct cm_conn *conn)
{
	if (conn->device)
		device_removed(conn->device);
	else
		disconnected(conn);
}

static void dispatch_conn(struct cm_conn *conn, const struct event *ev)
{
	switch (ev->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		on_addr_resolved(conn, RESOLVE_ROUTE_MS);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		devices_look(); /* a device without users is removed without an event */
		fail(conn, CM_ADDRESS, ev->status);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		on_route_resolved(conn);
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		fail(conn, CM_ROUTE, ev->status);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		fail(conn, CM_CONNECT, ev->status);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		fail(conn, CM_UNREACHABLE, ev->status);
		break;
	case RDMA_CM_EVENT_REJECTED:
		on_rejected(conn, ev->status, ev->data, ev->request.n_private);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		set_rnr_timer(conn);
		conn->ops->on_established(conn, ev->request.private_data, ev->request.n_private);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		disconnected(conn);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		on_conn_removal(conn);
		break;
	default:
		log_debug("connection event %s ignored", rdma_event_str(ev->type));
	}
}

static void on_listener_device(struct device_user *user)
{
	struct cm_listener *listener = container_of(user, struct cm_listener, user);

	if (listener->on_device_removed)
		listener->on_device_removed(listener);
}

/* A wildcard listener continues on the devices that are left and on those that appear. */
static void on_listener_removal(struct cm_listener *listener)
{
	if (listener->device)
		device_removed(listener->device);
	else
		devices_look();
}

static void dispatch(struct cm *cm, const struct event *ev)
{
	/* The id of a request is that of the new connection, without a context yet. */
	if (ev->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		on_request(cm, listener_of(ev->listen_id), ev->id, &ev->request);
	else if (!((struct cm_owner *)ev->id->context)->is_listener)
		dispatch_conn(conn_of(ev->id), ev);
	else if (ev->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		on_listener_removal(listener_of(ev->id));
}

static void on_channel(struct loop_fd *lfd, uint32_t events)
{
	struct cm *cm = container_of(lfd, struct cm, lfd);
	struct rdma_cm_event *raw;
	struct event ev;

	/* One event for each call: its handler may stop the loop or free cm. */
	if (rdma_get_cm_event(cm->channel, &raw))
		return;
	take_event(raw, &ev);
	dispatch(cm, &ev);
}

int cm_new(struct loop *control, struct cm **ret_cm)
{
	struct cm *cm = calloc(1, sizeof(*cm));
	int r;

	if (!cm)
		return -ENOMEM;
	cm->channel = rdma_create_event_channel();
	if (!cm->channel) {
		r = last_error();
		free(cm);
		return r;
	}
	fcntl(cm->channel->fd, F_SETFL, fcntl(cm->channel->fd, F_GETFL) | O_NONBLOCK);
	fcntl(cm->channel->fd, F_SETFD, FD_CLOEXEC);
	cm->lfd = (struct loop_fd){
		.fd = cm->channel->fd, .events = EPOLLIN, .on_event = on_channel};
	r = loop_fd_add(control, &cm->lfd);
	if (r < 0) {
		cm_free(cm);
		return r;
	}
	devices_watch(control);
	*ret_cm = cm;
	return 0;
}

void cm_free(struct cm *cm)
{
	if (!cm)
		return;
	devices_watch(NULL);
	loop_fd_remove(&cm->lfd);
	rdma_destroy_event_channel(cm->channel);
	free(cm);
}

/* ---- passive side ---- */

static int take_listener_device(struct cm_listener *listener)
{
	int r = device_hold(&listener->user, listener->id->verbs);

	listener->user.on_removed = on_listener_device;
	listener->device = listener->user.device;
	return r;
}

static int bind_and_listen(struct cm_listener *listener, const union addr *address, int backlog)
{
	union addr bound = *address;
	int one = 1;

	if (address->sa.sa_family == AF_INET6)
		rdma_set_option(listener->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one,
				sizeof(one));
	if (rdma_bind_addr(listener->id, &bound.sa) || rdma_listen(listener->id, backlog))
		return last_error();
	return listener->id->verbs ? take_listener_device(listener) : 0;
}

int cm_listen(struct cm *cm, const union addr *address, int backlog, struct cm_listener *listener)
{
	int r;

	if (rdma_create_id(cm->channel, &listener->id, &listener->owner, RDMA_PS_TCP))
		return last_error();
	listener->owner.is_listener = true;
	listener->cm = cm;
	listener->device = NULL;
	r = bind_and_listen(listener, address, backlog);
	if (r < 0) {
		cm_listener_close(listener);
		devices_look();
		return r;
	}
	listener->address = *address;
	if (address->sa.sa_family == AF_INET6)
		listener->address.in6.sin6_port = rdma_get_src_port(listener->id);
	else
		listener->address.in.sin_port = rdma_get_src_port(listener->id);
	return 0;
}

void cm_listener_close(struct cm_listener *listener)
{
	if (listener->id)
		rdma_destroy_id(listener->id);
	listener->id = NULL;
	listener->device = NULL;
	device_release(&listener->user);
}

int cm_hold_device(struct cm *cm, const union addr *address, struct device_user *ret_user)
{
	union addr bound = *address;
	struct rdma_cm_id *id;
	int r;

	if (address->sa.sa_family == AF_INET6)
		bound.in6.sin6_port = 0;
	else
		bound.in.sin_port = 0;
	if (rdma_create_id(cm->channel, &id, NULL, RDMA_PS_TCP))
		return last_error();
	if (rdma_bind_addr(id, &bound.sa))
		r = last_error();
	else
		r = id->verbs ? device_hold(ret_user, id->verbs) : -ENODEV;
	rdma_destroy_id(id);
	return r;
}

/*
 * librdmacm sets IBV_ACCESS_REMOTE_WRITE, so that only keys keep a peer from a WRITE. Hosts never
 * WRITE, so this clears the flag. Hosts hold no key that allows it, so a device that keeps the
 * flag is safe, too. An iWARP device may need the flag for the answers to our own READs.
 */
static void forbid_access(const struct cm_conn *conn)
{
	struct ibv_qp_attr attr = {.qp_access_flags = 0};

	if (conn->device->limits.is_iwarp)
		return;
	if (ibv_modify_qp(conn->id->qp, &attr, IBV_QP_ACCESS_FLAGS))
		log_debug("device %s: a queue pair keeps its access flags", conn->device->name);
}

int cm_accept(struct cm_conn *conn, const void *private_data, size_t n, unsigned initiator_depth)
{
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = (uint8_t)n,
		.responder_resources = 0, /* hosts never READ */
		.initiator_depth = (uint8_t)MIN(initiator_depth, RESOURCES_MAX),
		.flow_control = 1,
		.retry_count = RETRY,
		.rnr_retry_count = RNR_RETRY};

	check(n <= CM_PRIVATE_MAX);
	if (rdma_accept(conn->id, &param))
		return last_error();
	forbid_access(conn);
	return 0;
}

void cm_reject(struct cm_conn *conn, const void *private_data, size_t n)
{
	rdma_reject(conn->id, private_data, (uint8_t)n);
	cm_conn_destroy(conn);
}

void cm_notify_established(struct cm_conn *conn)
{
	/* Fails without harm if the CM already has the event. */
	rdma_notify(conn->id, IBV_EVENT_COMM_EST);
}

/* ---- active side ---- */

int cm_resolve(struct cm *cm, const union addr *destination, const union addr *source,
	       unsigned timeout_ms, const struct cm_conn_ops *ops, void *context,
	       struct cm_conn **ret_conn)
{
	union addr to = *destination, from;
	struct rdma_cm_id *id;
	struct cm_conn *conn;
	int r;

	if (rdma_create_id(cm->channel, &id, NULL, RDMA_PS_TCP))
		return last_error();
	conn = conn_new(cm, id);
	if (!conn) {
		rdma_destroy_id(id);
		return -ENOMEM;
	}
	conn->ops = ops;
	conn->context = context;
	if (source)
		from = *source;
	if (rdma_resolve_addr(id, source ? &from.sa : NULL, &to.sa, (int)timeout_ms)) {
		r = last_error();
		cm_conn_destroy(conn);
		devices_look();
		return r;
	}
	*ret_conn = conn;
	return 0;
}

int cm_connect(struct cm_conn *conn, const void *private_data, size_t n,
	       unsigned responder_resources)
{
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = (uint8_t)n,
		.responder_resources = (uint8_t)MIN(responder_resources, RESOURCES_MAX),
		.initiator_depth = 0,
		.flow_control = 1,
		.retry_count = RETRY,
		.rnr_retry_count = RNR_RETRY};

	return rdma_connect(conn->id, &param) ? last_error() : 0;
}

/* ---- the end ---- */

void cm_disconnect(struct cm_conn *conn)
{
	rdma_disconnect(conn->id);
}

void cm_conn_destroy(struct cm_conn *conn)
{
	if (!conn)
		return;
	rdma_destroy_id(conn->id);
	device_release(&conn->user);
	free(conn);
}

const char *cm_removed_device(const struct cm_conn *conn)
{
	return conn->device && conn->device->is_removed ? conn->device->name : NULL;
}
