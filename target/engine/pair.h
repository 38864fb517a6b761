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

#include "target/engine/request.h"

/* For each command, before it is parsed. Connects a second with its first. Ends a first if another
 * command follows it. NVME_OK, or the status of a second without a first. */
enum nvme_status pair_meet(struct request *r);
/* Whether the command may be the half that its FUSE bits name. */
bool pair_is_legal(const struct request *r);
/* For a first that was parsed with this status: the queue holds it until its second arrives.
 * NVME_OK, or the status that ends it. */
enum nvme_status pair_hold(struct request *r, enum nvme_status status);
