/* SPDX-License-Identifier: BSD-3-Clause */
/* What control passes to an I/O queue: once, when it is made; and with each association. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capture;
struct loop;
struct loop_msg;
struct unflushed;
struct unproven;
struct volume;
struct volume_io_errors;

/* The limits of an association's queue; control fills it before each attach. */
struct queue_limits {
	uint32_t nsid;
	unsigned block_shift;
	uint16_t qid, cntlid;
	uint32_t serial;	   /* of the association in this volume, from 1 */
	unsigned n_sq;		   /* entries of the submission queue */
	unsigned max_in_flight;	   /* and how many of them this host uses; known when connected */
	uint32_t max_transfer;	   /* bytes of one read or write */
	uint32_t in_capsule_bytes; /* data room of a capsule; 0: none */
	uint64_t max_zero_blocks, max_trim_blocks; /* of one command */
	bool has_zero, has_trim, can_unmap_zeroes;
	bool has_windows; /* each command lends a key of its own */
};

/* Of a new queue. */
struct queue_config {
	struct volume *volume;	     /* borrowed: outlives it */
	struct loop *control, *loop; /* borrowed */
	struct unflushed *unflushed;
	struct unproven *unproven;
	struct volume_io_errors *io_errors;
	struct capture *capture;
	uint16_t qid;
	unsigned n_entries; /* of the submission queue */
	size_t slab_bytes, max_io_bytes;
	bool is_slab_whole; /* registered at once, instead of as it is used */
	uint64_t io_timeout_ns, retry_for_ns;
	bool is_watched;
	/* control's handlers of the queue's messages */
	void (*on_attached)(struct loop_msg *msg), (*on_connected)(struct loop_msg *msg);
	void (*on_failed)(struct loop_msg *msg), (*on_stopped)(struct loop_msg *msg);
	void (*on_quitted)(struct loop_msg *msg);
	void (*on_resize)(struct loop_msg *msg); /* of its slab */
};
