/* SPDX-License-Identifier: BSD-3-Clause */
/* Fused pairs, as the life of a command meets them (request.c). The queue's poller. */
#pragma once

#include "target/engine/request.h"

/* Any command of an I/O queue, before it is parsed: does it follow a first of a pair? */
enum nvme_status fused_meet(struct request *r);
/* Whether it may be half of a pair, or is none. Fabrics and admin commands never are. */
bool fused_is_known(const struct request *r);
/* A first was parsed, with this status: it waits for its second, NVME_OK, or ends. */
enum nvme_status fused_hold(struct request *r, enum nvme_status status);
/* A second was parsed: do they belong together? */
enum nvme_status fused_join(struct request *r);
/* Its buffer is there: divides it, and takes over what came with the first's capsule. */
void fused_place(struct request *r);
