/* SPDX-License-Identifier: BSD-3-Clause */
/* What the controller and the namespace allow an I/O queue, as control has learned it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What an association lets a queue do; control fills it before each attach. */
struct queue_limits {
	uint32_t nsid;
	unsigned block_shift;
	uint16_t qid, cntlid;
	unsigned n_sq;		   /* entries of the submission queue */
	unsigned max_in_flight;	   /* and how many we use of them; known when connected */
	uint32_t max_transfer;	   /* bytes of one read or write */
	uint32_t in_capsule_bytes; /* data room of a capsule; 0: none */
	uint64_t max_zero_blocks, max_trim_blocks; /* of one command */
	bool has_zero, has_trim, can_unmap_zeroes;
	bool has_windows; /* each command lends a key of its own */
};
