/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work request as the packets that a connection would exchange for it: cut to the path MTU,
 * numbered, acknowledged unless it is UC (InfiniBand specification volume 1, chapters 5 and 9).
 */
#pragma once

#include <stdint.h>

struct trace_flow;
struct trace_message;

/*
 * Traces a work request and its answer. Called under sq_lock, when the data is in place and before
 * either side can poll a completion: so a reply follows its request in the file.
 */
void trace_message(const struct trace_message *m);

/* Records the addresses of a connection's QP, as its connection manager knows them. */
void trace_know(uint32_t qpn, const struct trace_flow *f);
