/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused pairs (Base 2.0, 3.4.2): two commands of a queue, one right after the other, that are
 * done as one.
 *
 *   first  --> held in queue->first --+
 *                                     +--> the second carries both to the end
 *   second, the very next command ----+
 *
 * Which commands can be a pair is in their entries (command_table.h), and what is done with them
 * is the second's (command/io/fused.c). Everything here runs on the queue's poller.
 */
#pragma once

#include "target/engine/request.h"

/* Any command, before it is parsed. Connects a second with its first. A first that this command
 * does not follow ends. NVME_OK, or the status of a second without a first. */
enum nvme_status pair_meet(struct request *r);
/* Whether the command may be the half that its FUSE bits name. */
bool pair_is_legal(const struct request *r);
/* A first was parsed, with this status: the queue holds it until its second comes. Returns
 * NVME_OK, or the status with which it ends. */
enum nvme_status pair_hold(struct request *r, enum nvme_status status);
