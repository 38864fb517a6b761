/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The method `capture` of a control socket, over the captures of a program's threads:
 *
 *     {"action": "start"}             -> {"capture": N}
 *     {"action": "read", "capture": N}-> {"entries": HEX, "dropped": EXCHANGES, "more": BOOL}
 *     {"action": "stop", "capture": N}-> {"dropped": EXCHANGES}
 *
 * HEX is struct capture_entry (capture.h), one after another. There is one capture at a time. It
 * ends with `stop`, or 5 s after its last call: so a reader that is gone leaves nothing running.
 */
#pragma once

#include <json-c/json.h>

#include "base/capture.h"
#include "base/error.h"
#include "base/loop.h"

enum {
	CAPTURE_PARTS_MAX = 64,
};

struct capture_service {
	/* Thread: the loop's */
	struct loop *loop;			  /* borrowed */
	struct capture *parts[CAPTURE_PARTS_MAX]; /* borrowed */
	unsigned n_parts;
	uint64_t (*stamp_now)(void);
	uint64_t n_started;
	bool is_running;
	/* After a capture has started or ended. NULL: not called. */
	void (*on_change)(struct capture_service *service);
	struct loop_timer deadline;
};

/* stamp_now: what the parts' exchanges are stamped with. */
void capture_service_init(struct capture_service *service, struct loop *loop,
			  uint64_t (*stamp_now)(void));
/* A part that lives as long as the service. At most CAPTURE_PARTS_MAX. */
void capture_service_add(struct capture_service *service, struct capture *part);
/* Ends the capture that runs. Accepts a zeroed one. */
void capture_service_stop(struct capture_service *service);
/* A call: the answer, or NULL with *error. */
struct json_object *capture_service_call(struct capture_service *service,
					 struct json_object *params, struct error *error);
