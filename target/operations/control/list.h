/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of rblkd as JSON. Control thread; the caller owns the returned objects. */
#pragma once

#include <json-c/json.h>

#include "target/engine/target.h"

enum {
	CONTROL_SCHEMA = 1,
};

/* {"schema": 1, "portals": [...]}: the list of that name, or all lists if what is NULL. NULL: no
 * list has that name. */
struct json_object *control_list(struct target *target, const char *what);
struct json_object *control_list_portals(struct target *target);
/* What Flush and FUA mean for each namespace. */
struct json_object *control_list_durability(struct target *target);

/* The name of a host in the configuration, or NULL. */
const char *control_host_name(const struct target *target, const char *nqn);
/* Hosts that are connected. */
unsigned control_count_hosts(const struct target *target);
void control_count_namespaces(struct target *target, unsigned *ret_n, unsigned *ret_failed,
			      unsigned *ret_degraded);
/* Of the namespaces, those whose state file may differ from the valid state. */
unsigned control_count_unkept(struct target *target);

void control_add_string(struct json_object *o, const char *key, const char *value);
void control_add_number(struct json_object *o, const char *key, uint64_t value);
void control_add_seconds_since(struct json_object *o, const char *key, uint64_t then_ns);
