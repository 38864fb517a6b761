/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request of a client, from its header to its last reference. It comes from its connection's
 * pool, which never grows. It holds one reference until it is answered, one for each part, one for
 * its queued reply; the last one gives it back to the pool. Thread: the worker's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "initiator/io/volume_io.h"
#include "nbd_bridge/io/nbd_conn.h"
#include "nbd_bridge/io/nbd_out.h"

enum reply_mode {
	REPLY_SIMPLE,  /* a simple reply, no data */
	REPLY_CHUNKS,  /* structured, parts as they come */
	REPLY_ORDERED, /* all parts in order behind one header, sent when all were read */
	REPLY_STREAM,  /* the same, but too large to be held: sent as it is read, alone */
	REPLY_BEGUN,   /* ordered or stream, and its header is out: only its data may follow */
};

/* The rules of moves: nbd_request.c. */
enum nbd_request_state {
	NBD_REQUEST_FREE,
	NBD_REQUEST_RUNNING,
	NBD_REQUEST_STARVED,  /* on conn.starved: needs a part or a buffer */
	NBD_REQUEST_DROPPED,  /* the client went away in the middle of it: no answer */
	NBD_REQUEST_ANSWERED, /* the last reference frees it */
};

struct nbd_request;
/* How a command runs, by its type: a row of the table in nbd_command.c. */
struct nbd_command_rule {
	uint16_t flags; /* that the client may set */
	bool is_writing;
	bool has_range;
	unsigned max_parts; /* at the volume at a time, so that it cannot take all */
	/* Makes one part, from the cursor on, and hands it to the volume. false: no memory. NULL:
	 * parts are made elsewhere, or none. */
	bool (*issue_one)(struct nbd_request *request);
	/* Each part came back: answers. */
	void (*finish)(struct nbd_request *request);
};

struct nbd_request {
	struct list node; /* conn.starved */
	struct nbd_request *next_free;
	struct nbd_conn *conn; /* borrowed */
	uint64_t *began_ns;    /* borrowed: its place in conn->figures */
	const struct nbd_command_rule *command;
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
	enum nbd_request_state state;
	bool must_flush;   /* when everything else is done: flush, and trim with FUA */
	struct list parts; /* ordered reads: to be sent */
	struct nbd_out out;
	struct volume_extents extents; /* BLOCK_STATUS */
};

/* From the connection's pool, which must not be empty. Unset: out, and what a header holds. */
struct nbd_request *nbd_request_take(struct nbd_conn *conn);
void nbd_request_move(struct nbd_request *request, enum nbd_request_state state);
/* Back to the pool: by nbd_request_unref only. */
void nbd_request_free(struct nbd_request *request);
/* Keeps the error of the lowest offset, mapped from a negative errno of the volume. */
void nbd_request_fail(struct nbd_request *request, int error, uint64_t offset);

static inline void nbd_request_ref(struct nbd_request *request)
{
	request->n_refs++;
}

static inline void nbd_request_unref(struct nbd_request *request)
{
	check(request->n_refs > 0);
	if (!--request->n_refs)
		nbd_request_free(request);
}
