/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits that control passes to a lane with each association. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The limits of a lane in an association; control fills it before each attach. */
struct lane_limits {
	uint32_t nsid;
	unsigned block_shift;
	uint16_t qid, cntlid;
	unsigned path;		   /* its index */
	uint32_t serial;	   /* of the association in this volume, from 1 */
	unsigned n_sq;		   /* entries of the submission queue */
	unsigned max_in_flight;	   /* and how many of them this host uses; known when connected */
	uint32_t max_transfer;	   /* bytes of one read or write */
	uint32_t in_capsule_bytes; /* data room of a capsule; 0: none */
	uint64_t max_zero_blocks, max_trim_blocks; /* of one command */
	uint32_t max_compare_bytes;		   /* of a Compare and Write; 0: has none */
	bool has_zero, has_trim, can_unmap_zeroes;
	bool has_windows; /* each command lends a key of its own */
};
