/* SPDX-License-Identifier: BSD-3-Clause */
/* Drives requests from state to state. Poller of the queue. */
#pragma once

#include "target/engine/record/request_state.h"

struct completion;
struct qp;
struct recv;
struct request;

/* on_recv of shared and own rings. */
void request_on_recv(struct recv *recv, struct qp *qp, const struct completion *c);
/* Enters a state, and runs steps until the request has to wait or is finished. */
void request_run(struct request *r, enum request_state next);
