/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests and their parts, from header to reply. Everything here is on the worker's
 * thread. */
#pragma once

#include "base/check.h"
#include "nbd_bridge/io/nbd_conn.h"

/* ---- gate.c ---- */

/* A step of the input machine: in CONN_WAITING, until the gate opens. */
enum conn_step gate_wait(struct nbd_conn *conn);

/* ---- nbd_request.c ---- */

/* Steps of the connection's input machine. */
enum conn_step nbd_request_receive(struct nbd_conn *conn);
enum conn_step nbd_request_skip_payload(struct nbd_conn *conn);

/* The fields of a request against the protocol, what was negotiated on its connection,
 * and the bounds of the export; changes nothing. */
enum nbd_error nbd_request_check(const struct nbd_request *request);
/* Back to the connection's pool: by nbd_request_unref, when nobody refers to it any more. */
void nbd_request_free(struct nbd_request *request);

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

/* Keeps the first error, mapped from a negative errno of the volume. */
void nbd_request_fail(struct nbd_request *request, int error, uint64_t offset);
/* The payload of a write stopped coming: what was written stays, no answer. */
void nbd_request_drop(struct nbd_request *request);

/* ---- nbd_io.c: parts, buffers, waiting ---- */

/* Makes parts for what is left of the request, as far as there is memory; without, it
 * waits in conn.starved and goes on by itself. */
void nbd_io_issue(struct nbd_request *request);
/* Goes on with the starved ones; true when none is left. */
bool nbd_io_issue_starved(struct nbd_conn *conn);
/* The client is gone: nothing of its I/O is sent to the target any more, and the log says how many were
 * taken back; those that are on the wire come back by themselves. */
void nbd_io_take_back(struct nbd_conn *conn);
/* Is there a request that may still change the volume? */
bool nbd_io_has_writes(const struct nbd_conn *conn);
/* No longer wants to hear of free memory. */
void nbd_io_stop_waiting(struct nbd_conn *conn);
/* Is there something for which no part was made yet? */
bool nbd_io_has_more(const struct nbd_request *request);
/* After a part came back: makes further parts, or answers when that was all. */
void nbd_io_settle(struct nbd_request *request);
/* A part of a write, zero, trim or flush came back. */
void nbd_io_part_done(struct nbd_part *part, int error);

/* A part for length bytes at offset, with n_bytes of registered memory (0: none); NULL
 * when there is none, and then nbd_conn_resume_soon will be called when there may be. */
struct nbd_part *nbd_part_take(struct nbd_request *request, uint64_t offset, uint64_t length,
			       uint32_t n_bytes);
/* Puts it and its buffer back. */
void nbd_part_give(struct nbd_part *part);
void nbd_part_move(struct nbd_part *part, enum part_state state);
/* The volume is done with it. */
void nbd_part_came_back(struct nbd_part *part);
/* Hands part.io to the volume. */
void nbd_part_submit(struct nbd_part *part, enum volume_op op, uint64_t offset, uint64_t length,
		     void *buffer, void (*done)(struct volume_io *io, int error));

/* ---- nbd_read.c ---- */

void nbd_read_start(struct nbd_request *request);
/* One part from the cursor on; false: no memory. Likewise below. */
bool nbd_read_issue_one(struct nbd_request *request);
/* Every part came back. */
void nbd_read_finish(struct nbd_request *request);

/* ---- nbd_write.c ---- */

/* Step of the connection's input machine. */
enum conn_step nbd_write_payload(struct nbd_conn *conn);

/* A part for one command of the request, from the cursor on, cut at the edges of blocks;
 * less than a block makes it a read-modify-write. with_data: it has a buffer and is at
 * most max_io_bytes long. NULL: no memory. */
struct nbd_part *nbd_write_take(struct nbd_request *request, bool with_data);
/* Runs op for the part under the range lock, then nbd_io_part_done. */
void nbd_write_run(struct nbd_part *part, enum volume_op op);

/* ---- nbd_zero.c ---- */

bool nbd_zero_issue_one(struct nbd_request *request);
bool nbd_trim_issue_one(struct nbd_request *request);
bool nbd_flush_issue_one(struct nbd_request *request);

/* ---- nbd_reply.c ---- */

/* The request is done, without data (any command), or failed before data was sent. */
void nbd_reply_status(struct nbd_request *request);
void nbd_reply_extents(struct nbd_request *request);
/* Data of one part as a chunk of its own. */
void nbd_reply_chunk(struct nbd_part *part, bool is_last);
/* The header before the parts of an ordered read, and each of them. */
void nbd_reply_ordered_header(struct nbd_request *request);
void nbd_reply_ordered_data(struct nbd_part *part);
/* Nothing further will be queued for it. */
void nbd_reply_end(struct nbd_request *request);
