/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ana_list, ana_set: the states of a subsystem's groups through each portal. Control thread.
 *
 * A state that was set lasts until its value in the file changes (apply), or until the next start.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf_guess.h"
#include "base/json.h"
#include "base/rcu.h"
#include "base/rpc_request.h"
#include "target/config/schema.h"
#include "target/operations/change/ana_change.h"
#include "target/operations/change/last_path.h"
#include "target/operations/control/ana.h"
#include "target/operations/control/list.h"
#include "target/association/portal.h"
#include "transport/wire/strings.h"

static const char list_hint[] = "rblkctl ana list shows what there is";

/* NULL: missing, or not a string. */
static const char *text(struct json_object *params, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(params, key, &value);
	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

static const struct subsystem *find_subsystem(struct target *target, const char *nqn,
					      struct error *error)
{
	const struct subsystem *subsystem = snapshot_find(rcu_get(&target->snapshot), nqn);

	if (!subsystem)
		rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list subsystems",
			   "there is no subsystem '%s'", nqn);
	return subsystem;
}

/* ---- list ----------------------------------------------------------------------------------- */

static struct json_object *show_portals(const struct target *target,
					const struct subsystem *subsystem,
					const struct ana_group *group)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < PORTALS_MAX; i++) {
		const struct ana_view *view = &group->views[i];
		struct json_object *o;

		if (!subsystem_is_on_portal(subsystem, i))
			continue;
		o = json_object_new_object();
		control_add_string(o, "portal", target->portals[i].name);
		control_add_string(o, "state", nvme_ana_state_string(view->state));
		control_add_string(o, "configured", nvme_ana_state_string(view->configured));
		control_add_number(o, "change_count", view->changed);
		json_append(list, o);
	}
	return list;
}

static struct json_object *show_nsids(const struct ana *ana, const struct ana_group *group)
{
	struct json_object *list = json_object_new_array();

	for (uint32_t nsid = 1; nsid <= NSID_MAX; nsid++)
		if (ana_group_of(ana, nsid) == group)
			json_append(list, json_object_new_int((int)nsid));
	return list;
}

static void add_groups(struct json_object *list, const struct target *target,
		       const struct subsystem *subsystem)
{
	const struct ana *ana = rcu_get(&subsystem->ana);

	for (unsigned i = 0; ana && i < ana->n_groups; i++) {
		struct json_object *o = json_object_new_object();

		control_add_string(o, "subsystem", subsystem->nqn);
		control_add_number(o, "group", ana->groups[i].id);
		json_add(o, "namespaces", show_nsids(ana, &ana->groups[i]));
		json_add(o, "portals", show_portals(target, subsystem, &ana->groups[i]));
		json_append(list, o);
	}
}

struct json_object *control_ana_list(void *context, struct json_object *params, struct error *error)
{
	struct target *target = context;
	const struct snapshot *snapshot = rcu_get(&target->snapshot);
	const char *nqn = text(params, "subsystem");
	struct json_object *o, *list;

	if (nqn && !find_subsystem(target, nqn, error))
		return NULL;
	o = json_object_new_object();
	list = json_object_new_array();
	for (unsigned i = 0; i < snapshot->n_subsystems; i++)
		if (!nqn || !strcmp(nqn, snapshot->subsystems[i].nqn))
			add_groups(list, target, &snapshot->subsystems[i]);
	control_add_number(o, "schema", CONTROL_SCHEMA);
	json_add(o, "groups", list);
	return o;
}

/* ---- set ------------------------------------------------------------------------------------ */

struct wish {
	const struct subsystem *subsystem;
	unsigned group; /* index */
	enum nvme_ana_state state;
	uint32_t portal_mask;
};

static bool read_state(struct json_object *params, struct wish *wish, struct error *error)
{
	const char *state = text(params, "state"), *guess;

	for (unsigned i = 0; state && config_ana_states[i]; i++)
		if (!strcmp(state, config_ana_states[i])) {
			wish->state = ana_state_of_choice(i);
			return true;
		}
	guess = state ? conf_did_you_mean(state, config_ana_states) : NULL;
	rpc_refuse(error, EXIT_USAGE,
		   "optimized, non_optimized, inaccessible, persistent_loss or change",
		   "there is no ANA state '%s'%s%s%s", state ? state : "",
		   guess ? " (did you mean '" : "", guess ? guess : "", guess ? "'?)" : "");
	return false;
}

static bool read_group(struct json_object *params, struct wish *wish, struct error *error)
{
	const struct ana *ana = rcu_get(&wish->subsystem->ana);
	struct json_object *value = NULL;
	uint64_t id;

	if (!ana)
		return rpc_refuse(error, EXIT_FAILED,
				  "add ana_groups to it in the configuration, then rblkctl apply",
				  "subsystem '%s' has no ANA groups", wish->subsystem->nqn);
	json_object_object_get_ex(params, "group", &value);
	id = json_object_is_type(value, json_type_int) ? json_object_get_uint64(value) : 0;
	wish->group = ana_find(ana, id);
	if (!id || wish->group == ANA_GROUPS_MAX)
		return rpc_refuse(error, EXIT_NOT_FOUND, list_hint,
				  "there is no ANA group %" PRIu64 " in %s", id,
				  wish->subsystem->nqn);
	if (ana->groups[wish->group].owner != ANA_OWNER_ALWAYS)
		return rpc_refuse(error, EXIT_FAILED, "rblkctl group give moves it",
				  "the state of group %" PRIu64
				  " follows the locks of its stores (owner: lock)",
				  id);
	return true;
}

static bool read_portal(struct target *target, struct json_object *params, struct wish *wish,
			struct error *error)
{
	const char *name = text(params, "portal");

	wish->portal_mask = UINT32_MAX;
	if (!name)
		return true;
	for (unsigned i = 0; i < PORTALS_MAX; i++) {
		const struct portal *portal = &target->portals[i];

		if (!portal_is_used(portal) || strcmp(portal->name, name) != 0)
			continue;
		wish->portal_mask = 1U << i;
		if (!subsystem_is_on_portal(wish->subsystem, i))
			return rpc_refuse(error, EXIT_FAILED, list_hint,
					  "subsystem '%s' is not on portal '%s'",
					  wish->subsystem->nqn, name);
		return true;
	}
	return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list portals", "there is no portal '%s'",
			  name);
}

/* The hosts that lose their last path; NULL: no memory. */
static struct json_object *list_cut(const struct target *target, const struct wish *wish)
{
	struct ana *after = ana_with_state(rcu_get(&wish->subsystem->ana), wish->group,
					   wish->portal_mask, wish->state);
	const struct path_change change = {
		.target = target, .subnqn = wish->subsystem->nqn, .ana = after};
	struct json_object *list = after ? control_list_cut(&change) : NULL;

	free(after);
	return list;
}

struct json_object *control_ana_set(void *context, struct json_object *params, struct error *error)
{
	struct target *target = context;
	const char *nqn = text(params, "subsystem");
	struct wish wish = {.subsystem = find_subsystem(target, nqn ? nqn : "", error)};
	struct json_object *o, *cut;
	unsigned n_told = 0;

	if (!wish.subsystem || !read_state(params, &wish, error) ||
	    !read_group(params, &wish, error) || !read_portal(target, params, &wish, error))
		return NULL;
	if (!target_is_serving(target))
		return rpc_refuse(error, EXIT_BUSY, "", "rblkd is stopping");
	cut = list_cut(target, &wish);
	if (!cut || ana_change(target, wish.subsystem->nqn, wish.group, wish.portal_mask,
			       wish.state, &n_told) < 0) {
		json_object_put(cut);
		return rpc_refuse(error, EXIT_FAILED, "", "out of memory");
	}
	o = json_object_new_object();
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_string(o, "subsystem", wish.subsystem->nqn);
	control_add_number(o, "group", rcu_get(&wish.subsystem->ana)->groups[wish.group].id);
	control_add_string(o, "portal", text(params, "portal"));
	control_add_string(o, "state", nvme_ana_state_string(wish.state));
	control_add_number(o, "controllers_told", n_told);
	json_add(o, "hosts_without_path", cut);
	return o;
}
