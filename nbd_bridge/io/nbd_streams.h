/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of a connection: its input, its output, its handshake, its figures. Thread: the
 * worker's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "nbd_bridge/io/nbd_out.h"
#include "nbd_bridge/io/nbd_state.h"
#include "nbd_bridge/io/nbd_wire.h"

struct nbd_part;
struct nbd_request;

/* bytes[at..end) is unread. */
struct conn_input {
	uint8_t *bytes; /* owned, CONN_RECV_BYTES */
	size_t at, end;
	enum conn_step step;	     /* what the last step returned */
	bool is_bulk;		     /* the last request brought a large payload */
	struct nbd_request *current; /* its payload is being read */
	struct nbd_part *filling;    /* of current: the rest of it is received in place */
	uint32_t n_skip_bytes;	     /* CONN_PAYLOAD_SKIP */
};

struct conn_output {
	struct list outs; /* of struct nbd_out */
	size_t n_sent;	  /* bytes of the first */
	bool is_blocked;  /* the socket is full */
};

/* How it keeps others waiting, for status. Thread: any; written by the worker's. */
struct conn_figures {
	uint64_t n_held_bytes;	 /* memory of its parts, in buffers and copied out of them */
	uint64_t n_copied_bytes; /* of those: copied out (nbd_reclaim.h) */
	uint64_t blocked_ns;	 /* its client takes no bytes since then; 0: it does */
	uint64_t began_ns[CONN_REQUESTS]; /* of each request; 0: it is free */
};

struct conn_handshake {
	uint32_t client_flags;		  /* enum nbd_handshake_flag */
	uint32_t option, option_length;	  /* that is being read */
	char meta_name[NBD_NAME_MAX + 1]; /* export the meta context was chosen for */
	struct nbd_out hello;		  /* payload is bytes */
	uint8_t *bytes;			  /* owned, CONN_REPLY_MAX: replies to the current option */
	size_t n_bytes;
};
