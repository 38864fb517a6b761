/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Service id resolution with other machines: how rdma_cm's ids for datagrams learn of each other's
 * queue pair. One question, one answer, both MADs on queue pair 1 (IBA volume 1, 12.11). Under
 * sr_cm_lock.
 */
#pragma once

#include "softrdma/cm/cm_way.h"

struct ib_cm_ends;
struct mad;

extern const struct sr_cm_way sr_cm_by_sidr;

/* A SIDR_REQ or SIDR_REP has come. It leaves sr_cm_lock for a moment. */
void sr_cm_on_sidr(const struct ib_cm_ends *ends, const struct mad *m);
/* The network says that nothing listens at the other end, which may be forged (refusals.h). */
void sr_cm_sidr_unreachable(const struct ib_cm_ends *ends);
