/* SPDX-License-Identifier: BSD-3-Clause */
/* Compare and Write, for the entry of Write (command_table.h). Poller of the queue. */
#pragma once

#include "target/engine/request/request.h"
#include "transport/wire/nvme.h"

/* For a Write that follows a fused Compare: NVME_OK if both have the same, not too many, blocks. */
enum nvme_status fused_join(struct request *r);
/* Once the buffer for both is there: divides it, and takes in-capsule data of the Compare. */
void fused_place(struct request *r);

/* The longest Compare and Write, in bytes. */
uint32_t fused_max_bytes(const struct target *target);
