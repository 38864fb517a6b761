/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * upgrade: starts the program again, newer or not, and lets it take over. The answer has the
 * process that prepares; status tells how it goes on, first of this process, then of that one.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/rpc_request.h"
#include "target/operations/control/list.h"
#include "target/operations/control/upgrade.h"
#include "target/operations/succession/predecessor.h"
#include "target/operations/succession/successor.h"

struct json_object *control_upgrade(void *context, struct json_object *params, struct error *error)
{
	struct target *target = context;
	struct json_object *o;

	if (!target->predecessor)
		return rpc_refuse(error, EXIT_FAILED, "", "this program has no successor");
	if (predecessor_begin(target->predecessor, error) < 0)
		return NULL;
	o = json_object_new_object();
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_number(o, "pid", (uint64_t)getpid());
	control_add_string(o, "version", RBLK_VERSION);
	control_add_number(o, "successor", (uint64_t)target->predecessor->successor_pid);
	return o;
}

struct json_object *control_show_upgrade(const struct target *target)
{
	const struct predecessor *p = target->predecessor;
	const struct successor *s = target->successor;
	struct json_object *o;

	if (!p ||
	    (p->state == PREDECESSOR_RESTS && !*p->failure.message && s->state != SUCCESSOR_SERVES))
		return NULL;
	o = json_object_new_object();
	if (p->state != PREDECESSOR_RESTS) {
		control_add_string(o, "state", predecessor_state_name(p));
		control_add_number(o, "successor", (uint64_t)p->successor_pid);
	} else if (*p->failure.message) {
		control_add_string(o, "state", "failed");
		control_add_string(o, "reason", p->failure.message);
	} else {
		control_add_string(o, "state", *s->undone ? "undone" : "done");
		control_add_string(o, "reason", *s->undone ? s->undone : s->loss);
		control_add_string(o, "version_before",
				   *s->version_before ? s->version_before : NULL);
		control_add_number(o, "held_ms", s->held_ns / NSEC_PER_MSEC);
	}
	return o;
}
