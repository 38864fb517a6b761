/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection's life.
 *
 *   NEW -> CLIENT_FLAGS -> OPTION <-> OPTION_DATA, OPTION_SKIP
 *                            | GO, EXPORT_NAME
 *           (WAITING ->)   REQUEST <-> PAYLOAD, PAYLOAD_SKIP
 *                            | DISC, end of input, server shutdown
 *   any -- error --> CLOSED <- DRAINING
 *
 * Input. Bytes are received into `in`, many requests at a time; the tail of a payload
 * that is not there yet goes past it, straight into registered memory. consume() runs the
 * step of the current state until it needs more bytes, or waits: for memory, or for the
 * client to take a reply. While it waits the socket is not read, so that back-pressure
 * reaches the client; nbd_conn_resume_soon goes on.
 *
 * Output. Replies queue in `outs` and leave at the end of the turn, many in one sendmsg.
 * A client that does not read fills its socket, then holds its share of memory, and then
 * is not read itself: nothing grows.
 *
 * The end. DRAINING answers what is in flight, then closes the socket. abort closes it at
 * once, and takes back what is not on the wire yet: a write of a client that is gone must not
 * overtake those of the client that has taken its place. Either way the object stays until its
 * last I/O came back from the volume, for the volume's buffers and its requests belong to it;
 * then the worker returns it to the control thread.
 *
 * A client that has closed only its sending side wants its answers: DRAINING. One that has closed both
 * is gone: abort. A unix socket tells these apart (EPOLLHUP); TCP does not, and there a client that ends
 * is one that is gone. While its input is read, what it sent before it went is still taken.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/states.h"
#include "nbd_bridge/io/nbd_handshake.h"
#include "nbd_bridge/io/nbd_request.h"
#include "nbd_bridge/io/worker.h"

enum {
	RECV_ROUNDS = 4, /* then the other connections have their turn */
};

#define HANDSHAKE_DEADLINE_NS (10 * NSEC_PER_SEC)
#define DRAIN_DEADLINE_NS     (10 * NSEC_PER_SEC)
#define STOP_DEADLINE_NS      (2 * NSEC_PER_SEC)

#define TO(s)  STATE_TO(CONN_##s)
#define TO_END (TO(DRAINING) | TO(CLOSED))
static const struct state_rule rules[] = {
	[CONN_NEW] = {"new", TO(CLIENT_FLAGS) | TO(WAITING) | TO(CLOSED)},
	[CONN_CLIENT_FLAGS] = {"client-flags", TO(OPTION) | TO_END},
	[CONN_OPTION] = {"option", TO(OPTION_DATA) | TO(OPTION_SKIP) | TO_END},
	[CONN_OPTION_DATA] = {"option-data", TO(OPTION) | TO(WAITING) | TO_END},
	[CONN_OPTION_SKIP] = {"option-skip", TO(OPTION) | TO_END},
	[CONN_REQUEST] = {"request", TO(PAYLOAD) | TO(PAYLOAD_SKIP) | TO_END},
	[CONN_PAYLOAD] = {"payload", TO(REQUEST) | TO_END},
	[CONN_PAYLOAD_SKIP] = {"payload-skip", TO(REQUEST) | TO_END},
	[CONN_WAITING] = {"waiting", TO(REQUEST) | TO_END},
	[CONN_DRAINING] = {"draining", TO(CLOSED)},
	[CONN_CLOSED] = {"closed", 0},
};
#undef TO_END
#undef TO

void nbd_conn_move(struct nbd_conn *conn, enum conn_state state)
{
	states_move("nbd_conn", rules, &conn->state, state);
}

static enum conn_step (*const steps[])(struct nbd_conn *conn) = {
	[CONN_CLIENT_FLAGS] = nbd_handshake_client_flags,
	[CONN_OPTION] = nbd_handshake_option,
	[CONN_OPTION_DATA] = nbd_handshake_option_data,
	[CONN_OPTION_SKIP] = nbd_handshake_option_skip,
	[CONN_REQUEST] = nbd_request_receive,
	[CONN_PAYLOAD] = nbd_write_payload,
	[CONN_PAYLOAD_SKIP] = nbd_request_skip_payload,
	[CONN_WAITING] = gate_wait,
	[CONN_CLOSED] = NULL,
};

/* ---- birth and end ----------------------------------------------------------------- */

struct nbd_conn *nbd_conn_new(struct nbd_export *export, unsigned id, int fd, bool is_kernel)
{
	struct nbd_conn *conn = calloc(1, sizeof(*conn));

	if (!conn) {
		close(fd);
		return NULL;
	}
	conn->export = export;
	conn->id = id;
	conn->fd = fd;
	conn->is_kernel = is_kernel;
	list_init(&conn->owned);
	list_init(&conn->node);
	list_init(&conn->dirty);
	list_init(&conn->outs);
	list_init(&conn->starved);
	list_init(&conn->free_requests);
	list_init(&conn->free_parts);
	conn->in = malloc(CONN_RECV_BYTES);
	conn->hello_bytes = malloc(CONN_REPLY_MAX);
	if (!conn->in || !conn->hello_bytes) {
		nbd_conn_free(conn);
		return NULL;
	}
	return conn;
}

void nbd_conn_free(struct nbd_conn *conn)
{
	if (conn->fd >= 0)
		close(conn->fd);
	free(conn->in);
	free(conn->hello_bytes);
	free(conn->requests);
	free(conn->parts);
	free(conn);
}

static void close_socket(struct nbd_conn *conn)
{
	nbd_conn_move(conn, CONN_CLOSED);
	loop_timer_stop(&conn->deadline);
	loop_fd_remove(&conn->lfd);
	close(take_fd(&conn->fd));
	log_debug("nbd %u: closed, %llu requests, %llu errors", conn->id,
		  (unsigned long long)conn->n_requests, (unsigned long long)conn->n_errors);
}

void nbd_conn_check_end(struct nbd_conn *conn)
{
	if (conn->n_running || !list_is_empty(&conn->outs))
		return;
	if (conn->state == CONN_DRAINING)
		close_socket(conn);
	if (conn->state == CONN_CLOSED)
		loop_defer(&conn->worker->loop, &conn->reap);
}

static void reap(struct loop_call *call)
{
	struct nbd_conn *conn = container_of(call, struct nbd_conn, reap);

	check(conn->state == CONN_CLOSED && !conn->n_running && !conn->n_held_bytes);
	loop_call_cancel(&conn->resume);
	nbd_io_stop_waiting(conn);
	worker_return_conn(conn->worker, conn);
}

/* What both ways to end have in common: no more input. */
static void end_input(struct nbd_conn *conn)
{
	if (conn->state >= CONN_REQUEST && !conn->is_kernel)
		atomic_fetch_sub(&conn->export->n_established, 1);
	conn->is_waiting = false;
	conn->in_at = conn->in_end = 0;
	if (conn->current)
		nbd_request_drop(conn->current);
}

void nbd_conn_drain(struct nbd_conn *conn)
{
	if (!nbd_conn_is_open(conn))
		return;
	end_input(conn);
	nbd_conn_move(conn, CONN_DRAINING);
	loop_timer_start(&conn->worker->loop, &conn->deadline, DRAIN_DEADLINE_NS);
	worker_mark_dirty(conn->worker, conn);
}

void nbd_conn_abort(struct nbd_conn *conn, const char *why)
{
	if (conn->state == CONN_CLOSED)
		return;
	log_debug("nbd %u: hanging up: %s", conn->id, why);
	if (nbd_conn_is_open(conn))
		end_input(conn);
	close_socket(conn);
	nbd_io_take_back(conn);
	worker_mark_dirty(conn->worker, conn); /* throws away what was to be sent */
	nbd_conn_resume_soon(conn);	       /* lets the starved fail */
}

static void on_deadline(struct loop_timer *timer)
{
	struct nbd_conn *conn = container_of(timer, struct nbd_conn, deadline);

	if (conn->state < CONN_REQUEST)
		nbd_conn_abort(conn, "the handshake took too long");
	else if (conn->is_send_blocked || conn->state != CONN_DRAINING)
		nbd_conn_abort(conn, "the client does not take its replies");
	else /* the volume has the requests, and answers them in its own time */
		loop_timer_start(&conn->worker->loop, &conn->deadline, DRAIN_DEADLINE_NS);
}

/* ---- input ------------------------------------------------------------------------- */

static bool wants_input(const struct nbd_conn *conn)
{
	return nbd_conn_is_open(conn) && !conn->is_waiting;
}

static void update_events(struct nbd_conn *conn)
{
	uint32_t events = (wants_input(conn) ? EPOLLIN
			   : conn->is_tcp    ? EPOLLRDHUP
					     : 0) |
			  (conn->is_send_blocked ? EPOLLOUT : 0);

	if (conn->lfd.loop && loop_fd_modify(&conn->lfd, events) < 0)
		nbd_conn_resume_soon(conn); /* or nobody would hear of the client again */
}

static void consume(struct nbd_conn *conn)
{
	enum conn_step step = STEP_AGAIN;

	while (step == STEP_AGAIN && nbd_conn_is_open(conn))
		step = steps[conn->state](conn);
	conn->is_waiting = step == STEP_WAITS;
}

/* How much to receive past what is known to come. Behind one large payload mostly comes another: its
 * header alone, so that it goes straight to its place and is not copied there. */
static size_t room_ahead(const struct nbd_conn *conn, size_t n_left)
{
	const size_t n_header = sizeof(struct nbd_request_header);

	if (conn->is_bulk && n_left < n_header &&
	    (conn->state == CONN_REQUEST || conn->state == CONN_PAYLOAD))
		return n_header - n_left;
	return CONN_RECV_BYTES - n_left;
}

/* The rest of a payload past the buffer, whatever follows it into the buffer. */
static ssize_t receive_bytes(struct nbd_conn *conn, bool *ret_is_short)
{
	struct nbd_part *part = conn->filling;
	size_t n_payload = 0, n_left = nbd_conn_n_input(conn);
	size_t n_ahead = room_ahead(conn, n_left);
	struct iovec iov[2];
	unsigned n_iov = 0;
	ssize_t n;

	memmove(conn->in, conn->in + conn->in_at, n_left);
	conn->in_at = 0;
	conn->in_end = n_left;
	if (part) {
		n_payload = part->length - part->n_filled;
		iov[n_iov++] = (struct iovec){part->payload + part->n_filled, n_payload};
	}
	iov[n_iov++] = (struct iovec){conn->in + n_left, n_ahead};
	n = readv(conn->fd, iov, (int)n_iov);
	if (n <= 0)
		return n;
	*ret_is_short = (size_t)n < n_payload + n_ahead;
	if (part)
		part->n_filled += (uint32_t)MIN((size_t)n, n_payload);
	conn->in_end += (size_t)n - MIN((size_t)n, n_payload);
	return n;
}

static void receive(struct nbd_conn *conn)
{
	bool is_short = false;

	for (unsigned i = 0; i < RECV_ROUNDS && wants_input(conn) && !is_short; i++) {
		ssize_t n = receive_bytes(conn, &is_short);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			nbd_conn_abort(conn, strerror(errno));
		else if (n == 0 && conn->state < CONN_REQUEST)
			nbd_conn_abort(conn, "the client left during the handshake");
		else if (n == 0 && conn->is_tcp)
			nbd_conn_abort(conn, "the client is gone");
		else if (n == 0)
			nbd_conn_drain(conn);
		else
			consume(conn);
	}
}

static void on_event(struct loop_fd *lfd, uint32_t events)
{
	struct nbd_conn *conn = container_of(lfd, struct nbd_conn, lfd);

	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR) && conn->is_send_blocked) {
		conn->is_send_blocked = false;
		worker_mark_dirty(conn->worker, conn);
	}
	if (wants_input(conn) && events & ~EPOLLOUT)
		receive(conn);
	else if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
		nbd_conn_abort(conn, "the client is gone");
	update_events(conn);
}

/* ---- waiting and going on ---------------------------------------------------------- */

static void resume(struct loop_call *call)
{
	struct nbd_conn *conn = container_of(call, struct nbd_conn, resume);

	if (!nbd_io_issue_starved(conn))
		return;
	if (nbd_conn_is_open(conn))
		consume(conn);
	update_events(conn);
	nbd_conn_check_end(conn);
}

void nbd_conn_resume_soon(struct nbd_conn *conn)
{
	loop_defer(&conn->worker->loop, &conn->resume);
}

void nbd_conn_start(struct nbd_conn *conn)
{
	int r;

	conn->lfd = (struct loop_fd){.fd = conn->fd, .events = EPOLLIN, .on_event = on_event};
	conn->deadline.on_expiry = on_deadline;
	conn->resume.run = resume;
	conn->reap.run = reap;
	r = loop_fd_add(&conn->worker->loop, &conn->lfd);
	if (r == 0 && conn->is_kernel)
		r = nbd_conn_begin_transmission(conn);
	if (r < 0) {
		nbd_conn_abort(conn, strerror(-r));
		return;
	}
	if (conn->is_kernel)
		return;
	loop_timer_start(&conn->worker->loop, &conn->deadline, HANDSHAKE_DEADLINE_NS);
	nbd_handshake_start(conn);
}

int nbd_conn_begin_transmission(struct nbd_conn *conn)
{
	conn->requests = calloc(CONN_REQUESTS, sizeof(*conn->requests));
	conn->parts = calloc(CONN_PARTS, sizeof(*conn->parts));
	if (!conn->requests || !conn->parts)
		return -ENOMEM;
	for (unsigned i = 0; i < CONN_REQUESTS; i++)
		list_add_tail(&conn->free_requests, &conn->requests[i].node);
	for (unsigned i = 0; i < CONN_PARTS; i++)
		list_add_tail(&conn->free_parts, &conn->parts[i].node);
	nbd_conn_move(conn, CONN_WAITING);
	loop_timer_stop(&conn->deadline);
	if (gate_is_open(&conn->worker->gate, conn->ticket))
		nbd_conn_admit(conn);
	return 0;
}

void nbd_conn_admit(struct nbd_conn *conn)
{
	if (conn->state != CONN_WAITING)
		return;
	nbd_conn_move(conn, CONN_REQUEST);
	if (conn->is_waiting)
		nbd_conn_resume_soon(conn);
}

/* During shutdown: nothing in flight, and no request half read. */
static void close_if_idle(struct nbd_conn *conn)
{
	bool is_between = conn->state == CONN_REQUEST || conn->state == CONN_WAITING;

	if (conn->is_stopping && is_between && !conn->n_running)
		nbd_conn_drain(conn);
}

void nbd_conn_stop(struct nbd_conn *conn)
{
	if (conn->is_stopping)
		return;
	conn->is_stopping = true;
	if (conn->state < CONN_REQUEST) {
		nbd_conn_abort(conn, "the server is shutting down");
		return;
	}
	if (nbd_conn_is_open(conn))
		loop_timer_start(&conn->worker->loop, &conn->deadline, STOP_DEADLINE_NS);
	receive(conn);
	close_if_idle(conn);
	update_events(conn);
}

/* ---- output ------------------------------------------------------------------------ */

void nbd_conn_send(struct nbd_conn *conn, struct nbd_out *out)
{
	list_add_tail(&conn->outs, &out->node);
	worker_mark_dirty(conn->worker, conn);
}

static unsigned gather(struct nbd_conn *conn, struct iovec *iov, size_t *ret_n_bytes)
{
	size_t skip = conn->out_sent, n_bytes = 0;
	unsigned n = 0;

	list_for_each (node, &conn->outs) {
		struct nbd_out *out = list_entry(node, struct nbd_out, node);
		uintptr_t payload = (uintptr_t)out->payload;
		size_t n_header = out->header_length - MIN(skip, out->header_length);
		size_t n_payload = out->payload_length;

		if (n + 2 > CONN_IOV)
			break;
		if (n_header)
			iov[n++] = (struct iovec){out->header + skip, n_header};
		skip -= MIN(skip, out->header_length);
		if (n_payload)
			iov[n++] = (struct iovec){(void *)(payload + skip), n_payload - skip};
		n_bytes += n_header + n_payload - skip;
		skip = 0;
	}
	*ret_n_bytes = n_bytes;
	return n;
}

static void finish_sent(struct nbd_conn *conn, size_t n_bytes)
{
	conn->out_sent += n_bytes;
	while (!list_is_empty(&conn->outs)) {
		struct nbd_out *out = list_entry(conn->outs.next, struct nbd_out, node);
		size_t n_out = out->header_length + out->payload_length;

		if (conn->out_sent < n_out)
			break;
		conn->out_sent -= n_out;
		list_remove(&out->node);
		out->sent(out);
	}
}

static void discard_outs(struct nbd_conn *conn)
{
	struct list *node;

	while ((node = list_take_first(&conn->outs))) {
		struct nbd_out *out = list_entry(node, struct nbd_out, node);

		out->sent(out);
	}
}

static void send_some(struct nbd_conn *conn)
{
	struct iovec iov[CONN_IOV] UNINITIALIZED;
	size_t n_bytes;
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = gather(conn, iov, &n_bytes)};
	ssize_t n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		nbd_conn_abort(conn, strerror(errno));
		return;
	}
	finish_sent(conn, n < 0 ? 0 : (size_t)n);
	conn->is_send_blocked = n < (ssize_t)n_bytes;
}

void nbd_conn_flush(struct nbd_conn *conn)
{
	while (!list_is_empty(&conn->outs) && !conn->is_send_blocked && conn->state != CONN_CLOSED)
		send_some(conn);
	if (conn->state == CONN_CLOSED)
		discard_outs(conn);
	close_if_idle(conn);
	update_events(conn);
	nbd_conn_check_end(conn);
}
