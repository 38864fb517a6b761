/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_list, group_give: groups whose owner is the rblkd that has the locks of their stores. A
 * give is answered at once; group_list tells how it goes on.
 */
#include <inttypes.h>

#include "base/json.h"
#include "base/rpc_request.h"
#include "target/operations/control/group.h"
#include "target/operations/control/list.h"
#include "target/operations/ownership/ownership.h"

static struct json_object *show_namespaces(const struct group *group)
{
	struct json_object *list = json_object_new_array();

	for (struct namespace_at at = {0}; group_next(group, &at);)
		json_append(list, json_object_new_int64(at.ns->nsid));
	return list;
}

static struct json_object *show_group(const struct group *group)
{
	struct json_object *o = json_object_new_object();

	control_add_string(o, "subsystem", group->subnqn);
	control_add_number(o, "group", group->id);
	control_add_string(o, "state", group_state_name(group));
	control_add_seconds_since(o, "since_s", group->since_ns);
	control_add_string(o, "reason", *group->why.message ? group->why.message : NULL);
	json_add(o, "namespaces", show_namespaces(group));
	control_add_number(o, "stores_taken", group->n_stores);
	control_add_number(o, "times_taken", group->moves[GROUP_TAKEN].n);
	control_add_number(o, "times_given", group->moves[GROUP_GIVEN].n);
	control_add_number(o, "times_lost", group->moves[GROUP_LOST].n);
	control_add_string(o, "lost_why", group->lost_why);
	return o;
}

struct json_object *control_list_groups(struct target *target)
{
	struct json_object *list = json_object_new_array();

	list_for_each (node, &target->groups)
		json_append(list, show_group(list_entry(node, struct group, node)));
	return list;
}

struct json_object *control_group_list(void *context, struct json_object *params,
				       struct error *error)
{
	struct json_object *o = json_object_new_object();

	control_add_number(o, "schema", CONTROL_SCHEMA);
	json_add(o, "groups", control_list_groups(context));
	return o;
}

static struct group *find(struct target *target, struct json_object *params, struct error *error)
{
	struct json_object *nqn = NULL, *id = NULL;
	struct group *group = NULL;

	json_object_object_get_ex(params, "subsystem", &nqn);
	json_object_object_get_ex(params, "group", &id);
	if (json_object_is_type(nqn, json_type_string) && json_object_is_type(id, json_type_int))
		group = ownership_find(target, json_object_get_string(nqn),
				       (uint32_t)json_object_get_uint64(id));
	if (!group)
		rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl group list",
			   "there is no group %" PRIu64 " with owner: lock in '%s'",
			   json_object_get_uint64(id), nqn ? json_object_get_string(nqn) : "");
	return group;
}

struct json_object *control_group_give(void *context, struct json_object *params,
				       struct error *error)
{
	struct group *group = find(context, params, error);
	struct json_object *o;

	if (!group || ownership_give(group, error) < 0)
		return NULL;
	o = show_group(group);
	control_add_number(o, "schema", CONTROL_SCHEMA);
	return o;
}
