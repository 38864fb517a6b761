/* SPDX-License-Identifier: BSD-3-Clause */
/* What a connection consists of: requests, their parts, things to be sent. Thread: the worker's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "initiator/control/volume.h"
#include "nbd_bridge/io/nbd_wire.h"
#include "nbd_bridge/io/range_lock.h"

struct nbd_conn;

/* Something to be sent: a header of our own and, behind it, memory of the owner. */
struct nbd_out {
	struct list node;		   /* conn.outs while queued */
	void (*sent)(struct nbd_out *out); /* also when it was thrown away */
	const void *payload;
	uint32_t payload_length;
	uint32_t header_length;
	union {
		uint8_t header[40];
		struct nbd_chunk_data data; /* of a part that is a chunk */
	};
};

enum part_state {
	PART_FREE,
	PART_TAKEN,
	PART_FILLING, /* its payload is being read from the socket */
	PART_LOCKING, /* in a queue of the range lock */
	PART_READING, /* with the volume */
	PART_WRITING, /* with the volume: write, write zeroes, trim, flush */
	PART_READ,    /* read, waits for the parts before it */
	PART_SENDING, /* in conn.outs */
};

/* One I/O of a request. */
struct nbd_part {
	struct volume_io io;
	struct nbd_out out;
	struct range_waiter lock;
	struct list node; /* conn.free_parts, or request.parts of an ordered read */
	struct nbd_request *request;
	unsigned state;
	uint8_t *buffer; /* of volume_buffer_take, or NULL */
	uint32_t n_buffer_bytes;
	uint8_t *payload; /* in buffer: the client's bytes */
	uint64_t offset;  /* what of the volume the client meant */
	uint64_t length;
	uint32_t n_filled;
	enum volume_op op; /* writes: to run under the lock */
	bool is_rmw;
};

enum reply_mode {
	REPLY_SIMPLE,  /* a simple reply, no data */
	REPLY_CHUNKS,  /* structured, parts as they come */
	REPLY_ORDERED, /* all parts in order behind one header, sent when all were read */
	REPLY_STREAM,  /* the same, but too large to be held: sent as it is read, alone */
};

struct nbd_request {
	struct list node; /* conn.free_requests or conn.starved */
	struct nbd_conn *conn;
	be64 cookie;
	uint16_t type, flags;
	uint64_t offset;
	uint32_t length;
	uint32_t cursor;    /* bytes of it that parts were made for */
	unsigned n_refs;    /* parts, queued outs, and one while unanswered; 0: free */
	unsigned n_parts;   /* taken and not given back */
	unsigned n_pending; /* of those: the volume is not done with them */
	enum reply_mode mode;
	enum nbd_error error;
	uint64_t error_offset;
	bool is_starved; /* on conn.starved: needs a part or a buffer */
	bool is_answered;
	bool is_header_sent;
	bool is_dropped;   /* the client went away in the middle of it: no answer */
	bool must_flush;   /* when everything else is done: flush, and trim with FUA */
	struct list parts; /* ordered reads: to be sent */
	struct nbd_out out;
};
