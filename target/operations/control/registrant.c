/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registrant_list, registrant_drop. Control thread. A drop is made at a poller
 * (command/io/resv_drop.c) and may wait for a disk or a cluster, so a call never waits for it: it
 * begins one, and later calls ask for it by its id. One runs at a time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/json.h"
#include "base/rcu.h"
#include "base/rpc_request.h"
#include "base/states.h"
#include "target/association/controller.h"
#include "target/command/io/resv_drop.h"
#include "target/export/guard/reservation.h"
#include "target/operations/control/list.h"
#include "target/operations/control/registrant.h"

enum drops_state {
	DROPS_IDLE,
	DROPS_RUN,
	DROPS_OVER, /* its outcome is kept until it is asked for */
};

#define TO(s) STATE_TO(DROPS_##s)

static const struct state_rule rules[] = {
	[DROPS_IDLE] = {"idle", TO(RUN)},
	[DROPS_RUN] = {"run", TO(OVER)},
	[DROPS_OVER] = {"over", TO(IDLE) | TO(RUN)},
};

struct drops {
	/* Thread: control */
	enum drops_state state;
	uint64_t id; /* of the last one */
	struct resv_drop drop;
};

/* ---- list ----------------------------------------------------------------------------------- */

static const char *type_name(unsigned type)
{
	static const char *const names[] = {
		[NVME_RTYPE_WRITE_EXCLUSIVE] = "write_exclusive",
		[NVME_RTYPE_EXCLUSIVE_ACCESS] = "exclusive_access",
		[NVME_RTYPE_WRITE_EXCLUSIVE_REGISTRANTS] = "write_exclusive_registrants",
		[NVME_RTYPE_EXCLUSIVE_ACCESS_REGISTRANTS] = "exclusive_access_registrants",
		[NVME_RTYPE_WRITE_EXCLUSIVE_ALL] = "write_exclusive_all",
		[NVME_RTYPE_EXCLUSIVE_ACCESS_ALL] = "exclusive_access_all",
	};

	return type < ARRAY_LEN(names) ? names[type] : NULL;
}

/* Whether a host is connected to the subsystem with that identifier; a claim without the proof that
 * it needs does not count. */
static bool is_connected(const struct target *target, const char *subnqn, const uint8_t *hostid)
{
	list_for_each (node, &target->controllers) {
		const struct controller *c = list_entry(node, struct controller, node);
		enum controller_state state = controller_state(c);

		if (!c->is_discovery &&
		    (state == CONTROLLER_LIVE || state == CONTROLLER_RESETTING) &&
		    !strcmp(c->subnqn, subnqn) && !memcmp(c->hostid, hostid, HOSTID_BYTES))
			return true;
	}
	return false;
}

/* A field of the namespace's list. The caller holds the guard's lock. */
static struct json_object *show(const struct target *target, const struct subsystem *subsystem,
				const struct namespace *ns, unsigned i)
{
	const struct reservation *now = atomic_load(&ns->guard->reservation);
	const struct registrant *registrant = &now->registrants[i];
	const char *nqn = reservation_name_of(now, i);
	struct json_object *o = json_object_new_object();
	char hostid[UUID_STR_LEN], key[20];

	uuid_unparse_lower(registrant->hostid, hostid);
	snprintf(key, sizeof(key), "%" PRIx64, registrant->key);
	control_add_string(o, "subsystem", subsystem->nqn);
	control_add_number(o, "nsid", ns->nsid);
	control_add_string(o, "hostid", hostid);
	control_add_string(o, "host", *nqn ? nqn : NULL);
	control_add_string(o, "host_name", *nqn ? control_host_name(target, nqn) : NULL);
	control_add_string(o, "key", key);
	control_add_bool(o, "holder", reservation_is_holder(now, i));
	control_add_string(o, "reservation", type_name(now->type));
	control_add_bool(o, "persistent", now->is_persistent);
	control_add_bool(o, "connected", is_connected(target, subsystem->nqn, registrant->hostid));
	return o;
}

static void add_registrants(const struct target *target, const struct subsystem *subsystem,
			    const struct namespace *ns, struct json_object *list)
{
	const struct reservation *now;

	pthread_mutex_lock(&ns->guard->lock);
	now = atomic_load(&ns->guard->reservation);
	for (unsigned i = 0; now && i < now->n; i++)
		json_append(list, show(target, subsystem, ns, i));
	pthread_mutex_unlock(&ns->guard->lock);
}

struct json_object *control_registrant_list(void *context, struct json_object *params,
					    struct error *error)
{
	struct target *target = context;
	const struct snapshot *snapshot = rcu_get(&target->snapshot);
	struct json_object *o, *list, *value = NULL;
	const char *name;
	unsigned n_meant = 0;

	json_object_object_get_ex(params, "name", &value);
	name = value ? json_object_get_string(value) : NULL;
	list = json_object_new_array();
	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);) {
		if (!subsystem_is_named(at.subsystem, at.ns, name))
			continue;
		n_meant++;
		add_registrants(target, at.subsystem, at.ns, list);
	}
	if (name && !n_meant) {
		json_object_put(list);
		return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list namespaces",
				  "there is no namespace '%s'", name);
	}
	o = json_object_new_object();
	control_add_number(o, "schema", CONTROL_SCHEMA);
	json_add(o, "registrants", list);
	return o;
}

/* ---- drop: how it goes ---------------------------------------------------------------------- */

static struct json_object *answer(const struct drops *drops)
{
	const struct resv_drop *drop = &drops->drop;
	struct json_object *o = json_object_new_object();
	bool is_over = drops->state != DROPS_RUN; /* else the poller has the drop */
	bool is_none = is_over && drop->state == RESV_DROP_NO_REGISTRANT;
	char hostid[UUID_STR_LEN];

	uuid_unparse_lower(drop->hostid, hostid);
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_number(o, "id", drops->id);
	control_add_string(o, "state", !is_over ? "running" : is_none ? "none" : "dropped");
	control_add_string(o, "subsystem", drop->subnqn);
	control_add_number(o, "nsid", drop->nsid);
	control_add_string(o, "hostid", hostid);
	control_add_string(o, "host", is_over && *drop->nqn ? drop->nqn : NULL);
	return o;
}

static struct json_object *answer_over(const struct drops *drops, struct error *error)
{
	const struct resv_drop *drop = &drops->drop;

	switch ((enum resv_drop_state)drop->state) {
	case RESV_DROP_RUNS:
	case RESV_DROP_DONE:
	case RESV_DROP_NO_REGISTRANT:
		break;
	case RESV_DROP_NO_NAMESPACE:
		return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list namespaces",
				  "there is no namespace %u in %s", drop->nsid, drop->subnqn);
	case RESV_DROP_NOT_KEPT:
		return rpc_refuse(error, EXIT_FAILED, "'rblkctl status' says where it is kept",
				  "the state of %s/%u cannot be kept: %s: nothing was changed",
				  drop->subnqn, drop->nsid, record_strerror(drop->error));
	}
	return answer(drops);
}

static struct json_object *ask(struct drops *drops, uint64_t id, struct error *error)
{
	if (!drops || drops->state == DROPS_IDLE || drops->id != id)
		return rpc_refuse(error, EXIT_NOT_FOUND, "the log of rblkd has its outcome",
				  "no registrant is being dropped under number %" PRIu64, id);
	if (drops->state == DROPS_RUN)
		return answer(drops);
	states_move("drop of a registrant", rules, &drops->state, DROPS_IDLE);
	return answer_over(drops, error);
}

static void on_dropped(struct resv_drop *drop)
{
	struct drops *drops = container_of(drop, struct drops, drop);
	char hostid[UUID_STR_LEN];

	states_move("drop of a registrant", rules, &drops->state, DROPS_OVER);
	uuid_unparse_lower(drop->hostid, hostid);
	if (drop->state == RESV_DROP_DONE)
		log_warn_about(
			LOG_ABOUT(.subsystem = drop->subnqn, .nsid = drop->nsid, .host = drop->nqn),
			"%s, namespace %u: an administrator dropped the registration of host %s (identifier %s)",
			drop->subnqn, drop->nsid, *drop->nqn ? drop->nqn : "unknown", hostid);
	else if (drop->state == RESV_DROP_NOT_KEPT)
		log_err_about(
			LOG_ABOUT(.subsystem = drop->subnqn, .nsid = drop->nsid),
			"%s, namespace %u: its state cannot be kept: %s: no registration was dropped",
			drop->subnqn, drop->nsid, record_strerror(drop->error));
}

/* ---- drop: beginning ------------------------------------------------------------------------ */

static struct json_object *member(struct json_object *params, const char *key, enum json_type type)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(params, key, &value);
	return json_object_is_type(value, type) ? value : NULL;
}

/* False: refused. */
static bool read_wish(struct json_object *params, struct resv_drop *ret_drop, struct error *error)
{
	struct json_object *nqn = member(params, "subsystem", json_type_string);
	struct json_object *nsid = member(params, "nsid", json_type_int);
	struct json_object *id = member(params, "hostid", json_type_string);
	uint64_t n = nsid ? json_object_get_uint64(nsid) : 0;

	if (!nqn || !n || n > NSID_MAX || strlen(json_object_get_string(nqn)) > NVMF_NQN_MAX)
		return rpc_refuse(error, EXIT_USAGE, "rblkctl list namespaces",
				  "a drop needs a subsystem and an nsid from 1 to %d", NSID_MAX);
	if (!id || uuid_parse(json_object_get_string(id), ret_drop->hostid) < 0)
		return rpc_refuse(error, EXIT_USAGE, "rblkctl registrant list",
				  "'%.100s' is no host identifier (a UUID)",
				  id ? json_object_get_string(id) : "");
	snprintf(ret_drop->subnqn, sizeof(ret_drop->subnqn), "%s", json_object_get_string(nqn));
	ret_drop->nsid = (uint32_t)n;
	return true;
}

/* False: refused. A host that is connected uses what it has registered. */
static bool may_drop(const struct target *target, const struct resv_drop *wish, bool is_forced,
		     struct error *error)
{
	const struct subsystem *subsystem = snapshot_find(rcu_get(&target->snapshot), wish->subnqn);

	if (!subsystem || !subsystem_namespace(subsystem, wish->nsid))
		return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list namespaces",
				  "there is no namespace %u in %s", wish->nsid, wish->subnqn);
	if (!target_is_serving(target))
		return rpc_refuse(error, EXIT_BUSY, "", "rblkd is stopping");
	if (!is_forced && is_connected(target, wish->subnqn, wish->hostid))
		return rpc_refuse(error, EXIT_BUSY,
				  "--force drops it: the host loses what it has reserved",
				  "a host with that identifier is connected to %s", wish->subnqn);
	return true;
}

static struct json_object *begin(struct target *target, struct json_object *params,
				 struct error *error)
{
	bool is_forced = json_object_get_boolean(member(params, "force", json_type_boolean));
	struct resv_drop wish = {.target = target, .done = on_dropped};

	if (!read_wish(params, &wish, error) || !may_drop(target, &wish, is_forced, error))
		return NULL;
	if (!target->drops)
		target->drops = calloc(1, sizeof(*target->drops));
	if (!target->drops)
		return rpc_refuse(error, EXIT_FAILED, "", "out of memory");
	if (target->drops->state == DROPS_RUN)
		return rpc_refuse(error, EXIT_BUSY, "try again soon",
				  "another registrant is being dropped");
	target->drops->drop = wish;
	target->drops->id++;
	states_move("drop of a registrant", rules, &target->drops->state, DROPS_RUN);
	resv_drop_start(&target->drops->drop);
	return answer(target->drops);
}

struct json_object *control_registrant_drop(void *context, struct json_object *params,
					    struct error *error)
{
	struct target *target = context;
	struct json_object *id = member(params, "id", json_type_int);

	if (id)
		return ask(target->drops, json_object_get_uint64(id), error);
	return begin(target, params, error);
}

void control_registrant_stop(struct target *target)
{
	check(!target->drops || target->drops->state != DROPS_RUN);
	free(target->drops);
	target->drops = NULL;
}
