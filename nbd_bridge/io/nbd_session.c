/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection's life: the session drives, and no file below it calls it (nbd_conn.h has the map,
 * nbd_conn.c the states).
 *
 * Input. Bytes are received into input.bytes, many requests at a time (nbd_socket.c). consume()
 * runs the step of the current state until it needs more bytes, or waits: for memory, or for the
 * client to take a reply. While it waits the socket is not read, so that back-pressure reaches the
 * client; nbd_conn_resume_soon goes on.
 *
 * Output. Replies queue in output.outs and leave at the end of the turn, many in one sendmsg. A
 * client that does not read fills its socket, then holds its share of memory, and then is not read
 * itself: nothing grows.
 *
 * The end. DRAINING answers what is in flight, then closes the socket. An abort closes it at once,
 * and takes back what is not on the wire yet: a write of a client that is gone must not overtake
 * those of the client that has taken its place. Either way the object stays until its last I/O came
 * back from the volume, for the volume's buffers and its requests belong to it; then on_over hands
 * it back.
 *
 * A client that has closed only its sending side still reads its answers: DRAINING. One that has
 * closed both is gone: abort. A unix socket tells these apart (EPOLLHUP); TCP does not, and there a
 * client that ends is one that is gone. While its input is read, what it sent before it went is
 * still taken.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "nbd_bridge/io/nbd_command.h"
#include "nbd_bridge/io/nbd_handshake.h"
#include "nbd_bridge/io/nbd_io.h"
#include "nbd_bridge/io/nbd_session.h"
#include "nbd_bridge/io/nbd_socket.h"
#include "nbd_bridge/io/nbd_write.h"

enum {
	RECV_ROUNDS = 4, /* then the other connections have their turn */
};

#define HANDSHAKE_DEADLINE_NS (10 * NSEC_PER_SEC)
#define DRAIN_DEADLINE_NS     (10 * NSEC_PER_SEC)
#define STOP_DEADLINE_NS      (2 * NSEC_PER_SEC)

/* nbd_session_admit goes on. */
static enum conn_step wait_for_gate(struct nbd_conn *conn)
{
	return STEP_WAITS;
}

static enum conn_step (*const steps[])(struct nbd_conn *conn) = {
	[CONN_CLIENT_FLAGS] = nbd_handshake_client_flags,
	[CONN_OPTION] = nbd_handshake_option,
	[CONN_OPTION_DATA] = nbd_handshake_option_data,
	[CONN_OPTION_SKIP] = nbd_handshake_option_skip,
	[CONN_REQUEST] = nbd_command_receive,
	[CONN_PAYLOAD] = nbd_write_payload,
	[CONN_PAYLOAD_SKIP] = nbd_command_skip_payload,
	[CONN_WAITING] = wait_for_gate,
	[CONN_CLOSED] = NULL,
};

/* ---- the end ----------------------------------------------------------------------- */

static void close_socket(struct nbd_conn *conn)
{
	nbd_conn_move(conn, CONN_CLOSED);
	loop_timer_stop(&conn->deadline);
	loop_fd_remove(&conn->lfd);
	close(take_fd(&conn->fd));
	log_debug("nbd %u: closed, %llu requests, %llu errors", conn->id,
		  (unsigned long long)conn->n_requests, (unsigned long long)conn->n_errors);
}

/* For another worker: whatever belongs to this one's loop and queue is taken off. Its memory,
 * and what it has received and not parsed, go along. */
static void leave(struct nbd_conn *conn)
{
	check(nbd_conn_is_going(conn) && list_is_empty(&conn->starved) &&
	      !conn->figures.n_held_bytes);
	conn->must_leave = false;
	conn->output.is_blocked = false;
	loop_fd_remove(&conn->lfd);
	loop_call_cancel(&conn->resume);
	nbd_part_stop_waiting(conn);
	conn->on_over(conn);
}

static void reap(struct loop_call *call)
{
	struct nbd_conn *conn = container_of(call, struct nbd_conn, reap);

	if (!nbd_conn_is_going(conn))
		return; /* it was about to leave, and is stopped instead */
	if (nbd_conn_is_open(conn)) {
		leave(conn);
		return;
	}
	if (conn->state == CONN_DRAINING)
		close_socket(conn);
	check(conn->state == CONN_CLOSED && !conn->n_running && !conn->figures.n_held_bytes);
	loop_call_cancel(&conn->resume);
	nbd_part_stop_waiting(conn);
	conn->on_over(conn);
}

/* Both ways to end begin with this: no more input. */
static void end_input(struct nbd_conn *conn)
{
	check(nbd_conn_is_open(conn));
	if (conn->state >= CONN_REQUEST && conn->client != CLIENT_KERNEL)
		atomic_fetch_sub(&conn->export->n_established, 1);
	conn->input.step = STEP_NEEDS_INPUT;
	conn->input.at = conn->input.end = 0;
	if (conn->input.current)
		nbd_io_drop(conn->input.current);
}

void nbd_session_drain(struct nbd_conn *conn)
{
	if (!nbd_conn_is_open(conn))
		return;
	end_input(conn);
	nbd_conn_move(conn, CONN_DRAINING);
	loop_timer_start(&conn->thread->loop, &conn->deadline, DRAIN_DEADLINE_NS);
	nbd_conn_mark_dirty(conn);
}

void nbd_session_abort(struct nbd_conn *conn, const char *why)
{
	if (conn->state == CONN_CLOSED)
		return;
	log_debug("nbd %u: hanging up: %s", conn->id, why);
	if (nbd_conn_is_open(conn))
		end_input(conn);
	close_socket(conn);
	nbd_io_take_back(conn);
	nbd_conn_mark_dirty(conn);  /* discards the output */
	nbd_conn_resume_soon(conn); /* the starved requests fail */
}

static void on_deadline(struct loop_timer *timer)
{
	struct nbd_conn *conn = container_of(timer, struct nbd_conn, deadline);

	if (conn->state < CONN_REQUEST)
		nbd_session_abort(conn, "the handshake took too long");
	else if (conn->output.is_blocked || conn->state != CONN_DRAINING)
		nbd_session_abort(conn, "the client does not take its replies");
	else /* the volume has the requests, and answers them in its own time */
		loop_timer_start(&conn->thread->loop, &conn->deadline, DRAIN_DEADLINE_NS);
}

/* ---- input and output --------------------------------------------------------------- */

static bool wants_input(const struct nbd_conn *conn)
{
	return nbd_conn_is_open(conn) && !nbd_conn_is_waiting(conn);
}

static void update_events(struct nbd_conn *conn)
{
	uint32_t events = (wants_input(conn) ? EPOLLIN : 0) |
			  (conn->output.is_blocked ? EPOLLOUT : 0);

	if (conn->lfd.loop && loop_fd_modify(&conn->lfd, events) < 0)
		nbd_conn_resume_soon(conn); /* no event would arrive any more: try again */
}

static void begin_transmission(struct nbd_conn *conn)
{
	if (nbd_conn_alloc(conn) < 0) {
		if (conn->client != CLIENT_KERNEL)
			atomic_fetch_sub(&conn->export->n_established, 1);
		nbd_session_abort(conn, "no memory for its requests");
		return;
	}
	nbd_conn_move(conn, CONN_WAITING);
	loop_timer_stop(&conn->deadline);
	if (nbd_thread_admits(conn->thread, conn->ticket))
		nbd_session_admit(conn);
}

/* Apart, as most steps do not change the phase. */
static NOINLINE enum conn_step change_phase(struct nbd_conn *conn, enum conn_step step)
{
	if (step == STEP_TRANSMIT)
		begin_transmission(conn);
	else if (step == STEP_DRAIN)
		nbd_session_drain(conn);
	else
		nbd_session_abort(conn, conn->why);
	return STEP_AGAIN;
}

/* Runs steps until one needs more input or waits, or the connection ends. */
static void consume(struct nbd_conn *conn)
{
	enum conn_step step = STEP_AGAIN;

	while (step == STEP_AGAIN && nbd_conn_is_open(conn)) {
		step = steps[conn->state](conn);
		if (step >= STEP_TRANSMIT)
			step = change_phase(conn, step);
	}
	conn->input.step = step;
	if (conn->must_leave)
		nbd_conn_check_end(conn);
}

static void receive(struct nbd_conn *conn)
{
	bool is_short = false;

	for (unsigned i = 0; i < RECV_ROUNDS && wants_input(conn) && !is_short; i++) {
		ssize_t n = nbd_socket_receive(conn, &is_short);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			nbd_session_abort(conn, strerror(errno));
		else if (n == 0 && conn->state < CONN_REQUEST)
			nbd_session_abort(conn, "the client left during the handshake");
		else if (n == 0)
			nbd_session_drain(conn);
		else
			consume(conn);
	}
}

static void on_event(struct loop_fd *lfd, uint32_t events)
{
	struct nbd_conn *conn = container_of(lfd, struct nbd_conn, lfd);

	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR) && conn->output.is_blocked) {
		conn->output.is_blocked = false;
		nbd_conn_mark_dirty(conn);
	}
	if (wants_input(conn) && events & ~EPOLLOUT)
		receive(conn);
	else if (events & (EPOLLHUP | EPOLLERR))
		nbd_session_abort(conn, "the client is gone");
	update_events(conn);
}

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

/* ---- start and stop ---------------------------------------------------------------- */

static void on_failure(struct nbd_conn *conn)
{
	nbd_session_abort(conn, conn->why);
}

void nbd_session_start(struct nbd_conn *conn)
{
	int r;

	check(conn->state == CONN_NEW && conn->fd >= 0);
	conn->lfd = (struct loop_fd){.fd = conn->fd, .events = EPOLLIN, .on_event = on_event};
	conn->deadline.on_expiry = on_deadline;
	conn->resume.run = resume;
	conn->reap.run = reap;
	conn->on_failure = on_failure;
	r = loop_fd_add(&conn->thread->loop, &conn->lfd);
	if (r < 0) {
		nbd_session_abort(conn, strerror(-r));
		return;
	}
	if (conn->client == CLIENT_KERNEL) {
		begin_transmission(conn);
		return;
	}
	loop_timer_start(&conn->thread->loop, &conn->deadline, HANDSHAKE_DEADLINE_NS);
	nbd_handshake_start(conn);
}

void nbd_session_leave(struct nbd_conn *conn)
{
	if (!nbd_conn_is_open(conn) || conn->end != END_OPEN)
		return;
	conn->must_leave = true;
	nbd_conn_check_end(conn);
}

void nbd_session_arrive(struct nbd_conn *conn)
{
	int r;

	check(conn->state == CONN_REQUEST && !conn->n_running);
	conn->lfd.events = EPOLLIN;
	r = loop_fd_add(&conn->thread->loop, &conn->lfd);
	if (r < 0) {
		nbd_session_abort(conn, strerror(-r));
		return;
	}
	consume(conn); /* what it brings along */
	update_events(conn);
}

void nbd_session_admit(struct nbd_conn *conn)
{
	if (conn->state != CONN_WAITING)
		return;
	nbd_conn_move(conn, CONN_REQUEST);
	if (nbd_conn_is_waiting(conn))
		nbd_conn_resume_soon(conn);
	nbd_conn_check_end(conn);
}

/* During shutdown: nothing in flight, and no request half read. */
static void close_if_idle(struct nbd_conn *conn)
{
	bool is_between = conn->state == CONN_REQUEST || conn->state == CONN_WAITING;

	if (conn->end == END_STOPPING && is_between && !conn->n_running)
		nbd_session_drain(conn);
}

/* It shall not leave any more, but answer its client here. */
static void stay(struct nbd_conn *conn)
{
	if (!conn->must_leave)
		return;
	conn->must_leave = false;
	nbd_conn_resume_soon(conn);
}

void nbd_session_stop(struct nbd_conn *conn)
{
	if (conn->end != END_OPEN)
		return;
	nbd_conn_set_end(conn, END_STOPPING);
	stay(conn);
	if (conn->state < CONN_REQUEST) {
		nbd_session_abort(conn, "the server is shutting down");
		return;
	}
	if (nbd_conn_is_open(conn))
		loop_timer_start(&conn->thread->loop, &conn->deadline, STOP_DEADLINE_NS);
	receive(conn);
	close_if_idle(conn);
	update_events(conn);
}

static void send_some(struct nbd_conn *conn)
{
	int r = nbd_socket_send(conn);

	if (r < 0)
		nbd_session_abort(conn, r == -EPROTO && conn->why ? conn->why : strerror(-r));
}

void nbd_session_flush(struct nbd_conn *conn)
{
	while (!list_is_empty(&conn->output.outs) && !conn->output.is_blocked &&
	       conn->state != CONN_CLOSED)
		send_some(conn);
	if (conn->state == CONN_CLOSED)
		nbd_socket_discard(conn);
	close_if_idle(conn);
	update_events(conn);
	nbd_conn_check_end(conn);
}
