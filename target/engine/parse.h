/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of a command before it is done. Everything here runs on the queue's poller. */
#pragma once

#include "target/engine/request.h"

/* Finds r->command, checks what all commands have in common, and calls the command's parser. A
 * status, which is the answer; or NVME_OK, and the request has execute, direction and length. */
enum nvme_status parse_command(struct request *r);

/* For parsers that have set direction and length. NVME_OK; or the status to answer, because the
 * data that the host describes is longer (is_exact), shorter, or at a place where it cannot be. */
enum nvme_status parse_check_sgl(const struct request *r, bool is_exact);
