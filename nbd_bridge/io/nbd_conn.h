/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One NBD connection: its fields, its states, and what the files below the session ask of it. It
 * lives on one worker's thread from its first byte to its end.
 *
 * Files of the folder, each calls only those below it:
 *
 *   worker          the thread; connections arrive and leave, the volume is flushed
 *   gate            delays a new connection until the I/O of ended ones is back
 *   nbd_session     drives: bytes in and out, steps, start, stop, drain, abort
 *   nbd_handshake   nbd_options   nbd_hello            handshake: steps, options
 *   nbd_command     a request's header: validate, then start it
 *   nbd_read        nbd_write     nbd_zero             the commands
 *   nbd_io          a request becomes parts; starved requests; a part came back
 *   nbd_reply       headers of replies     nbd_extents block status
 *   nbd_reclaim     memory of clients that stand still goes to those that wait
 *   nbd_part        one I/O of the volume, with its memory
 *   nbd_request     a request, from its header to its last reference
 *   nbd_socket      bytes in and out
 *   nbd_conn        nbd_thread.h  nbd_export   range_lock   nbd_wire.h
 *
 * Below the session nothing closes a connection: a step returns STEP_ABORT or STEP_DRAIN, and what
 * fails later calls nbd_conn_fail.
 */
#pragma once

#include "nbd_bridge/io/nbd_export.h"
#include "nbd_bridge/io/nbd_state.h"
#include "nbd_bridge/io/nbd_streams.h"
#include "nbd_bridge/io/nbd_thread.h"

struct worker;

struct nbd_conn {
	/* Thread: the worker's; before CONN_CLIENT_FLAGS and after on_over: control */
	struct nbd_thread *thread; /* borrowed: outlives its connections */
	struct nbd_export *export; /* borrowed */
	struct list owned;	   /* control's list of all connections */
	char peer[80];		   /* for the log; written before the start */
	unsigned id;
	enum conn_client client;
	uint64_t ticket; /* its transmission begins when the gate is open up to here (gate.h) */

	struct worker *goes_to; /* control: borrowed; the worker that it moves to, or NULL */
	uint64_t n_looked;	/* control: of n_requests, at the last look (pool.c) */

	enum conn_state state;
	enum conn_end end;
	bool must_leave; /* it starts no request until it has left for another worker */
	const char *why; /* STEP_ABORT, nbd_conn_fail */
	void (*on_failure)(struct nbd_conn *conn);
	/* It has ended: its socket is closed, its I/O is back. Or it leaves for another worker: it
	 * is open, and nothing of it is in flight. The callee owns it from here on. */
	void (*on_over)(struct nbd_conn *conn);
	int fd; /* owned */
	struct loop_fd lfd;
	struct loop_msg msg;	 /* to the worker and back */
	struct list node, dirty; /* in those of thread: conns, dirty */
	struct loop_timer deadline;
	struct loop_call resume, reap;

	struct conn_input input;
	struct conn_output output;
	struct conn_handshake handshake;

	enum conn_replies replies; /* negotiated by the handshake */

	/* Transmission; allocated when the handshake is over. */
	struct nbd_request *requests;	   /* owned, CONN_REQUESTS */
	struct nbd_part *parts;		   /* owned, CONN_PARTS */
	struct nbd_request *free_requests; /* by next_free */
	struct nbd_part *free_parts;	   /* by next_free */
	struct list starved;		   /* of struct nbd_request, FIFO */
	struct nbd_request *alone;	   /* REPLY_STREAM: nothing beside it */
	unsigned n_running;		   /* requests not yet free */
	struct loop_call buffer_waiter;
	bool is_waiting_for_buffer; /* buffer_waiter is with the volume */
	uint64_t n_errors;

	/* Thread: any; written by the worker's (base/counter.h) */
	uint64_t n_requests;
	struct conn_figures figures;
};

/* Control thread: a connection on fd (taken in any case), to be sent to a worker; NULL: no
 * memory. */
struct nbd_conn *nbd_conn_new(struct nbd_export *export, unsigned id, int fd,
			      enum conn_client client);
/* Control thread: after on_over, or one that was never sent. */
void nbd_conn_free(struct nbd_conn *conn);

/* Worker thread from here on. Checks the move against the table. */
void nbd_conn_move(struct nbd_conn *conn, enum conn_state state);
void nbd_conn_set_end(struct nbd_conn *conn, enum conn_end end);
/* Allocates requests and parts. 0 or -ENOMEM. */
int nbd_conn_alloc(struct nbd_conn *conn);
/* Runs the starved and the steps again, in the next turn. */
void nbd_conn_resume_soon(struct nbd_conn *conn);
/* The thread flushes this connection at the end of the turn. */
void nbd_conn_mark_dirty(struct nbd_conn *conn);
/* Queues for sending at the end of this turn; out->sent follows in any case. */
void nbd_conn_send(struct nbd_conn *conn, struct nbd_out *out);
/* Outside of a step: the connection cannot go on. The session aborts it before this returns. */
void nbd_conn_fail(struct nbd_conn *conn, const char *why);
/* After a request was freed or output was sent: if that was the last thing, the connection ends or
 * leaves in the next turn. */
void nbd_conn_check_end(struct nbd_conn *conn);
/* Its thread has more or fewer connections now: how much memory the requests of each may hold.
 * One that holds more from before keeps it as long as it needs it; from one whose client stands
 * still it is taken when another waits (nbd_reclaim.h). */
void nbd_conn_share_out(struct nbd_conn *conn);

/* Unread input. */
static inline size_t nbd_conn_n_input(const struct nbd_conn *conn)
{
	return conn->input.end - conn->input.at;
}

static inline bool nbd_conn_is_open(const struct nbd_conn *conn)
{
	return conn->state < CONN_DRAINING;
}

/* Whether it stays only for what is in flight. */
static inline bool nbd_conn_is_going(const struct nbd_conn *conn)
{
	return !nbd_conn_is_open(conn) || (conn->must_leave && conn->state == CONN_REQUEST);
}

static inline bool nbd_conn_is_waiting(const struct nbd_conn *conn)
{
	return conn->input.step == STEP_WAITS;
}

/* For a step: return nbd_conn_refuse(conn, "why"). */
static inline enum conn_step nbd_conn_refuse(struct nbd_conn *conn, const char *why)
{
	conn->why = why;
	return STEP_ABORT;
}
