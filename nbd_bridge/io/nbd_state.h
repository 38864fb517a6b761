/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection's limits, its states, and the results of the steps of its input machine. */
#pragma once

enum {
	CONN_REQUESTS = 128,	 /* in flight on one connection; at this limit we stop reading it */
	CONN_PARTS = 256,	 /* I/O of all of them */
	CONN_RECV_BYTES = 32768, /* requests are parsed from here, many a system call */
	CONN_OPTION_MAX = 16384, /* a longer option is refused and skipped */
	CONN_REPLY_MAX = 4096,	 /* replies to one option */
};

_Static_assert(CONN_RECV_BYTES > CONN_OPTION_MAX, "an option is parsed when all of it is there");
_Static_assert(CONN_PARTS >= CONN_REQUESTS, "each request can have a part");

/* The rules of moves: nbd_conn.c. */
enum conn_state {
	CONN_NEW, /* on its way to the worker */
	CONN_CLIENT_FLAGS,
	CONN_OPTION,
	CONN_OPTION_DATA,
	CONN_OPTION_SKIP, /* skips the data of an option that was refused */
	CONN_REQUEST,
	CONN_PAYLOAD,
	CONN_PAYLOAD_SKIP,
	CONN_WAITING,  /* the handshake is over; the gate is not open yet (gate.h) */
	CONN_DRAINING, /* reads no more; answers what is in flight */
	CONN_CLOSED,   /* the socket is closed; I/O may still be with the volume */
};

/* The result of a step of the input machine, for the session. */
enum conn_step {
	STEP_AGAIN,
	STEP_NEEDS_INPUT,
	STEP_WAITS,    /* for memory or for output to drain; nbd_conn_resume_soon goes on */
	STEP_TRANSMIT, /* the handshake is over */
	STEP_DRAIN,    /* the client is done: no more input, answers go out */
	STEP_ABORT,    /* the client breaks the protocol, as conn->why describes */
};

/* Agreed on in the handshake; each includes those before it. */
enum conn_replies {
	REPLIES_SIMPLE,
	REPLIES_STRUCTURED,
	REPLIES_WITH_STATUS, /* and the context base:allocation: block status may be asked for */
};

/* How a connection ends, as known outside of it. The rules of moves: nbd_conn.c. */
enum conn_end {
	END_OPEN,
	END_STOPPING,	/* server shutdown: new requests are refused */
	END_WAITED_FOR, /* it has ended, and the gate waits for its I/O */
	END_OVER,	/* the gate waits no more */
};

enum conn_client {
	CLIENT_SOCKET,
	CLIENT_KERNEL, /* the kernel's end of a socket pair: no handshake */
	CLIENT_KINDS,
};
