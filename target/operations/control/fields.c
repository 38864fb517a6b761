/* SPDX-License-Identifier: BSD-3-Clause */
/* See fields.h. */
#include "base/clock.h"
#include "base/json.h"
#include "target/export/namespace.h"
#include "target/operations/control/fields.h"

void control_add_string(struct json_object *o, const char *key, const char *value)
{
	if (value)
		json_add(o, key, json_object_new_string(value));
	else
		json_add_null(o, key);
}

void control_add_number(struct json_object *o, const char *key, uint64_t value)
{
	json_add(o, key, json_object_new_uint64(value));
}

void control_add_bool(struct json_object *o, const char *key, bool value)
{
	json_add(o, key, json_object_new_boolean(value));
}

void control_add_seconds_since(struct json_object *o, const char *key, uint64_t then_ns)
{
	control_add_number(o, key, (clock_ns() - then_ns) / NSEC_PER_SEC);
}

void control_add_counters(struct json_object *o, const struct namespace *ns,
			  const struct namespace_counters *sum)
{
	control_add_number(o, "reads", sum->n_reads);
	control_add_number(o, "writes", sum->n_writes);
	control_add_number(o, "read_bytes", sum->read_blocks << ns->block_shift);
	control_add_number(o, "written_bytes", sum->written_blocks << ns->block_shift);
	control_add_number(o, "flushes", sum->n_flushes);
	control_add_number(o, "errors", sum->n_errors);
}
