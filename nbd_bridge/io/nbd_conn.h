/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One NBD connection. It lives on one worker from its first byte to its end; everything in these structs
 * belongs to that worker's thread. Files, in the order in which things happen: nbd_conn (birth, bytes in and
 * out, end), nbd_handshake, nbd_options, nbd_request (parse, validate), nbd_io (parts, buffers, waiting),
 * nbd_read, nbd_write, nbd_zero, nbd_extents, nbd_reply.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "nbd_bridge/io/nbd_export.h"
#include "nbd_bridge/io/nbd_part.h"

struct worker;

enum {
	CONN_REQUESTS = 128,	 /* in flight on one connection; then we stop reading it */
	CONN_PARTS = 256,	 /* I/O of all of them */
	CONN_REQUEST_PARTS = 16, /* of one request, so that it cannot take all */
	CONN_FILL_PARTS = 3,	 /* of one that writes zeros */
	CONN_RECV_BYTES = 32768, /* requests are parsed from here, many a system call */
	CONN_OPTION_MAX = 16384, /* a longer option is refused and skipped */
	CONN_REPLY_MAX = 4096,	 /* replies to one option */
	CONN_IOV = 64,
};

enum conn_state {
	CONN_NEW, /* on its way to the worker */
	CONN_CLIENT_FLAGS,
	CONN_OPTION,
	CONN_OPTION_DATA,
	CONN_OPTION_SKIP, /* swallows the data of an option that was refused */
	CONN_REQUEST,
	CONN_PAYLOAD,
	CONN_PAYLOAD_SKIP,
	CONN_WAITING,  /* the handshake is over; the gate is not open yet (gate.h) */
	CONN_DRAINING, /* reads no more; answers what is in flight */
	CONN_CLOSED,   /* the socket is closed; I/O may still be with the volume */
};

/* What a step of the input machine found. */
enum conn_step {
	STEP_AGAIN,
	STEP_NEEDS_INPUT,
	STEP_WAITS, /* for memory or for output to drain; nbd_conn_resume goes on */
};

struct nbd_conn {
	/* Thread: the worker's; before CONN_CLIENT_FLAGS and after the hand-back: control
	 */
	struct worker *worker;	   /* borrowed: outlives its connections */
	struct nbd_export *export; /* borrowed */
	struct list owned;	   /* control's list of all connections */
	char peer[80];		   /* who that is, for people; written before the start */
	unsigned id;
	unsigned state;
	bool is_kernel;	    /* the kernel's end of a socketpair: no handshake */
	bool is_tcp;	    /* the end of its input is the end of it: TCP does not say more */
	uint64_t ticket;    /* its transmission begins when the gate is open up to here (gate.h) */
	bool is_waited_for; /* it has ended, and the gate waits for its I/O */
	int fd;		    /* owned */
	struct loop_fd lfd;
	struct loop_msg msg; /* to the worker and back */
	struct list node;    /* worker.conns */
	struct list dirty;   /* worker.dirty: has something to send */
	struct loop_timer deadline;
	struct loop_call resume, reap, buffer_waiter;

	/* Input: in[in_at..in_end) is unread. */
	uint8_t *in; /* owned, CONN_RECV_BYTES */
	size_t in_at, in_end;
	bool is_bulk;		    /* the last request brought a large payload */
	bool is_waiting;	    /* the last step said STEP_WAITS */
	bool is_waiting_for_buffer; /* buffer_waiter is with the volume */
	bool is_stopping;	    /* server shutdown: new requests are refused */

	/* Output. */
	struct list outs;
	size_t out_sent; /* bytes of the first */
	bool is_send_blocked;

	/* Handshake. */
	bool is_fixed_newstyle, is_no_zeroes, is_structured, has_allocation_context;
	char meta_name[NBD_NAME_MAX + 1]; /* export the meta context was chosen for */
	uint32_t option, option_length;
	struct nbd_out hello; /* payload is hello_bytes */
	uint8_t *hello_bytes; /* owned, CONN_REPLY_MAX */
	size_t n_hello_bytes;

	/* Transmission; allocated when the handshake is over. */
	struct nbd_request *requests; /* owned, CONN_REQUESTS */
	struct nbd_part *parts;	      /* owned, CONN_PARTS */
	struct list free_requests, free_parts;
	struct list starved;	     /* of struct nbd_request, FIFO */
	struct nbd_request *current; /* its payload is being read */
	struct nbd_part *filling;
	uint32_t n_skip_bytes;
	struct nbd_request *alone; /* REPLY_STREAM: nothing beside it */
	unsigned n_running;	   /* requests not yet free */
	uint64_t n_held_bytes;	   /* of buffers */
	uint64_t n_requests, n_errors;
};

/* ---- nbd_conn.c ---- */

/* Control thread: a connection on fd (taken in any case), to be sent to a worker; NULL:
 * no memory. */
struct nbd_conn *nbd_conn_new(struct nbd_export *export, unsigned id, int fd, bool is_kernel);
void nbd_conn_free(struct nbd_conn *conn);

/* Worker thread from here on. */
void nbd_conn_start(struct nbd_conn *conn);
/* Server shutdown: finishes what is in flight, refuses what comes, closes. */
void nbd_conn_stop(struct nbd_conn *conn);
/* Hard disconnect: nothing more is read or sent. */
void nbd_conn_abort(struct nbd_conn *conn, const char *why);
/* No more input is taken; closes when everything in flight has been answered. */
void nbd_conn_drain(struct nbd_conn *conn);
void nbd_conn_move(struct nbd_conn *conn, enum conn_state state);
/* Goes on with whatever waits, in the next turn. */
void nbd_conn_resume_soon(struct nbd_conn *conn);
/* A request was freed or the last output sent: closes and hands back when that was all.
 */
void nbd_conn_check_end(struct nbd_conn *conn);
/* The gate is open: a connection that waits for it begins its transmission. */
void nbd_conn_admit(struct nbd_conn *conn);
/* The handshake is over. -ENOMEM. */
int nbd_conn_begin_transmission(struct nbd_conn *conn);
/* Queues for sending at the end of this turn. */
void nbd_conn_send(struct nbd_conn *conn, struct nbd_out *out);
/* Sends what is queued, as far as the socket takes it. Called by the worker at the end of
 * a turn. */
void nbd_conn_flush(struct nbd_conn *conn);
static inline size_t nbd_conn_n_input(const struct nbd_conn *conn)
{
	return conn->in_end - conn->in_at;
}
static inline bool nbd_conn_is_open(const struct nbd_conn *conn)
{
	return conn->state < CONN_DRAINING;
}
