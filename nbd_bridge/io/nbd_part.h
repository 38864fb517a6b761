/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part: one I/O of the volume, of at most max_io_bytes, with its registered memory and its place
 * in the range lock. Parts come from their connection's pool, buffers from the slab of the worker's
 * queue; both are there from the start. Thread: the worker's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "initiator/control/volume.h"
#include "nbd_bridge/io/nbd_out.h"
#include "nbd_bridge/io/nbd_request.h"
#include "nbd_bridge/io/range_lock.h"

/* The rules of moves: nbd_part.c. */
enum part_state {
	PART_FREE,
	PART_TAKEN,
	PART_FILLING, /* its payload is being read from the socket */
	PART_LOCKING, /* in a queue of the range lock */
	PART_READING, /* with the volume */
	PART_WRITING, /* with the volume: write, write zeroes, trim, flush */
	PART_READ,    /* read; waits for the parts before it */
	PART_SENDING, /* in conn.output.outs */
};

struct nbd_part {
	struct volume_io io;
	struct nbd_out out;
	struct range_waiter lock;
	struct list node; /* request.parts of an ordered read */
	struct nbd_part *next_free;
	struct nbd_request *request; /* ref */
	enum part_state state;
	uint8_t *buffer; /* of volume_buffer_take, or NULL */
	uint32_t n_buffer_bytes;
	uint8_t *copy;	  /* owned: its bytes have left the buffer; or NULL */
	uint8_t *payload; /* in buffer or copy: the client's bytes */
	uint64_t offset;  /* of the client's bytes in the volume */
	uint64_t length;
	uint32_t n_filled;
	enum volume_op op; /* writes: to run under the lock */
	bool is_rmw;	   /* less than a block: read, modify, write */
	bool was_seen;	   /* nbd_reclaim: it waited for its client at the last look */
};

/* A part for length bytes at offset, with n_bytes of registered memory (0: none). NULL when there
 * is none: then nbd_conn_resume_soon is called when there may be. */
struct nbd_part *nbd_part_take(struct nbd_request *request, uint64_t offset, uint64_t length,
			       uint32_t n_bytes);
/* Gives it and its buffer back. Returns its request, with the part's reference. */
struct nbd_request *nbd_part_give(struct nbd_part *part);
void nbd_part_move(struct nbd_part *part, enum part_state state);
/* Hands part.io to the volume; done follows, never from inside. */
void nbd_part_submit(struct nbd_part *part, enum volume_op op, uint64_t offset, uint64_t length,
		     void *buffer, void (*done)(struct volume_io *io, int error));
/* The volume is done with the part; it stays taken. */
void nbd_part_came_back(struct nbd_part *part);
/* FILLING, SENDING: gives the buffer to others; the client's bytes go on in memory of their own,
 * which counts like the buffer. False: there is no memory; nothing happens. */
bool nbd_part_copy_out(struct nbd_part *part);
/* All bytes of its payload are there: copies them into a buffer again. False: there is none;
 * nbd_conn_resume_soon is called when there may be. */
bool nbd_part_copy_in(struct nbd_part *part);
/* The connection no longer waits for a buffer. */
void nbd_part_stop_waiting(struct nbd_conn *conn);
