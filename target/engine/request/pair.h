/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused pairs (Base 2.0, 3.4.2): two consecutive commands of a queue that execute as one.
 *
 *   first  --> held in queue->first --+
 *                                     +--> the second carries both to the end
 *   second, the very next command ----+
 *
 * The entries of commands (command_table.h) define which commands can be a pair, and the second's
 * execution handles both (command/io/fused.c). Poller of the queue.
 */
#pragma once

#include "base/bits.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/request.h"

/* The meaning of the next command for a fused pair (pair.h). */
enum pair_state {
	PAIR_NONE,
	PAIR_HELD,   /* a first waits: the next command must be its second */
	PAIR_FAILED, /* a first has failed: its second fails, too */
};

/* Whether the command is a half of a pair, or follows a first. Others need nothing of this
 * header. */
static inline bool pair_concerns(const struct request *r)
{
	return UNLIKELY(r->queue->pair != PAIR_NONE || request_fuse(r));
}
/* For such a command, once its entry is found. Connects a second with its first. If another command
 * follows a first, *ret_left is that first, with its status: the caller ends it. NVME_OK; or the
 * status of a second without a first, or of a command that may not be the half that its FUSE bits
 * name. */
enum nvme_status pair_meet(struct request *r, struct request **ret_left);
/* For a first that was parsed with this status: the queue holds it until its second arrives.
 * NVME_OK, or the status that ends it. */
enum nvme_status pair_hold(struct request *r, enum nvme_status status);
