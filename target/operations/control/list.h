/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of rblkd as JSON. Control thread; the caller owns the returned objects. */
#pragma once

#include <json-c/json.h>

#include "target/engine/record/target.h"
#include "target/operations/control/fields.h"

/* {"schema": 1, "portals": [...]}: the list of that name, or all lists if what is NULL. NULL: no
 * list has that name. */
struct json_object *control_list(struct target *target, const char *what);
struct json_object *control_list_portals(struct target *target);
/* The meaning of Flush and FUA for each namespace. */
struct json_object *control_list_durability(struct target *target);
/* The health of what the stores depend on, for namespaces whose store has such a thing. Sets
 * *ret_ill to the number of those that cannot be served now. */
struct json_object *control_list_stores(struct target *target, unsigned *ret_ill);

/* The name of a host in the configuration, or NULL. */
const char *control_host_name(const struct target *target, const char *nqn);
struct path_change;
/* The NQNs of hosts that the change leaves without a path to a namespace that they use. */
struct json_object *control_list_cut(const struct path_change *change);
/* Hosts that are connected. */
unsigned control_count_hosts(const struct target *target);
void control_count_namespaces(struct target *target, unsigned *ret_n, unsigned *ret_failed,
			      unsigned *ret_degraded);
/* The number of namespaces whose record may differ from the valid state. Sets *ret_refusing to the
 * number of those that last refused a command because a cluster did not keep or give it. */
unsigned control_count_unkept(struct target *target, unsigned *ret_refusing);
