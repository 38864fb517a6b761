/* SPDX-License-Identifier: BSD-3-Clause */
/* A command enters its namespace: admission by the guard (export/guard). Poller of the queue. */
#pragma once

#include "target/engine/record/request_state.h"

struct request;

/* Just before the command touches the medium. GONE: it is admitted. Otherwise the state to return:
 * PARKED; or RESPOND, because the command is aborted or the guard refuses it. */
enum request_state request_enter(struct request *r);

/* For a direct Read whose blocks a write is using: leaves the guard, and continues through a
 * buffer. Returns the state, TAKE_BUFFER. */
enum request_state request_use_buffer(struct request *r);
