/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks each command before it executes. Poller of the queue. */
#pragma once

#include "target/engine/request/request.h"

/* Whether the command describes its data as NVMe over Fabrics requires. */
static inline bool parse_has_sgl(const struct request *r)
{
	return (r->sqe.flags & NVME_FLAGS_PSDT_MASK) == NVME_FLAGS_PSDT_SGL;
}

/* Checks what all commands have in common, and calls the parser of r->command. NVME_OK: the request
 * has execute, direction and length. Any other status is the answer. */
enum nvme_status parse_command(struct request *r);

/* For parsers, once they have set direction and length. NVME_OK; or the status to answer, because
 * the SGL describes more data (if is_exact) or less than that, or at an illegal place. */
enum nvme_status parse_check_sgl(const struct request *r, bool is_exact);
