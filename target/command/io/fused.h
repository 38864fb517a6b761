/* SPDX-License-Identifier: BSD-3-Clause */
/* Compare and Write, as the entry of Write names them (command_table.h). The queue's poller. */
#pragma once

#include "target/engine/request.h"

/* A Write that follows a fused Compare: NVME_OK if both mean the same blocks and are not too
 * long. */
enum nvme_status fused_join(struct request *r);
/* The buffer of both is there: divides it, and takes the Compare's data if its capsule brought
 * it. */
void fused_place(struct request *r);
