/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects of rblkd: portals, subsystems, namespaces, hosts, connections, each as a list of JSON
 * objects. control.c calls it on the control thread, which owns portals, queues, controllers and
 * the snapshot. The counters of pollers are read without stopping them.
 *
 * Scripts rely on the keys: new ones may be added, but none may change
 * (tests/loop/test_control.py). Sizes are bytes, times seconds.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/rcu.h"
#include "target/operations/control/list.h"
#include "target/association/connection.h"
#include "target/export/health/record.h"
#include "target/operations/change/last_path.h"
#include "target/operations/control/load.h"
#include "target/operations/control/io_errors.h"
#include "target/association/controller.h"
#include "target/export/durability.h"
#include "target/export/guard/guard_state.h"
#include "target/export/health/health.h"
#include "target/association/portal.h"
#include "target/engine/queue/queue.h"

enum {
	STORE_HEALTH_MAX = 256,
};

/* ---- portals -------------------------------------------------------------------------------- */

/* By name: a portal that was moved to another address keeps its connections. */
static unsigned count_queues(const struct target *target, const struct portal *portal)
{
	unsigned n = 0;

	list_for_each (node, &target->connections) {
		n += !strcmp(list_entry(node, struct connection, node)->portal->name, portal->name);
	}
	return n;
}

static const char *explain_portal(const struct portal *portal, char *buf, size_t n)
{
	uint64_t now = clock_ns(), then = portal->retry.deadline_ns;
	const char *what = portal->error == -EADDRNOTAVAIL ? "address not configured"
			   : portal->error == -ENODEV	   ? "no RDMA device has the address"
							   : strerror(-portal->error);

	if (portal_reach(portal) != PORTAL_FOR_ALL)
		return portal_reach(portal) == PORTAL_WITHOUT_ROCE
			       ? "soft: this machine only"
			       : "link-local: this machine only";
	if (!loop_timer_is_running(&portal->retry))
		return portal->error ? what : NULL;
	snprintf(buf, n, "%s, retry in %u s", what,
		 then > now ? (unsigned)((then - now) / NSEC_PER_SEC + 1) : 0);
	return buf;
}

static struct json_object *show_portal(const struct target *target, const struct portal *portal)
{
	struct json_object *o = json_object_new_object();
	enum portal_state state = atomic_load(&portal->state);
	const struct device *device = portal->listener.device;
	char address[ADDR_STRING_MAX], detail[160];

	control_add_string(o, "name", portal->name);
	control_add_string(o, "address", addr_format(address, &portal->address));
	control_add_string(o, "device", state == PORTAL_LISTENING && device ? device->name : NULL);
	control_add_string(o, "state", portal_state_name(state));
	control_add_number(o, "queue_pairs", count_queues(target, portal));
	control_add_number(o, "accepted", portal->n_accepted);
	control_add_number(o, "refused", portal->n_refused);
	control_add_string(o, "detail", explain_portal(portal, detail, sizeof(detail)));
	return o;
}

struct json_object *control_list_portals(struct target *target)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < PORTALS_MAX; i++)
		if (portal_is_used(&target->portals[i]))
			json_append(list, show_portal(target, &target->portals[i]));
	return list;
}

/* ---- subsystems and namespaces -------------------------------------------------------------- */

static const struct snapshot *get_snapshot(struct target *target)
{
	return rcu_get(&target->snapshot);
}

static unsigned count_controllers(const struct target *target, const char *subnqn)
{
	unsigned n = 0;

	list_for_each (node, &target->controllers) {
		n += !strcmp(list_entry(node, struct controller, node)->subnqn, subnqn);
	}
	return n;
}

/* The SMART data that distinguishes one start from another. */
static void add_life(struct json_object *o, const struct subsystem *subsystem)
{
	struct health_figures figures;

	health_read(subsystem->health, &figures);
	control_add_number(o, "power_cycles", figures.power_cycles);
	control_add_number(o, "unsafe_shutdowns", figures.unsafe_shutdowns);
	control_add_number(o, "crashes", figures.crashes);
}

static struct json_object *show_subsystem(const struct target *target,
					  const struct subsystem *subsystem)
{
	struct json_object *o = json_object_new_object();
	struct json_object *portals = json_object_new_array();
	struct json_object *hosts = json_object_new_array();

	for (unsigned i = 0; i < PORTALS_MAX; i++)
		if (subsystem_is_on_portal(subsystem, i))
			json_append(portals, json_object_new_string(target->portals[i].name));
	for (unsigned i = 0; i < subsystem->n_hosts; i++)
		json_append(hosts, json_object_new_string(subsystem->hosts[i]));
	control_add_string(o, "nqn", subsystem->nqn);
	control_add_string(o, "serial", subsystem->serial);
	control_add_string(o, "model", subsystem->model);
	json_add(o, "portals", portals);
	control_add_bool(o, "allow_any_host", subsystem->allows_any_host);
	json_add(o, "allow_hosts", hosts);
	control_add_number(o, "namespaces", subsystem->n_namespaces);
	control_add_number(o, "controllers", count_controllers(target, subsystem->nqn));
	add_life(o, subsystem);
	return o;
}

static struct json_object *list_subsystems(struct target *target)
{
	const struct snapshot *snapshot = get_snapshot(target);
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < snapshot->n_subsystems; i++)
		json_append(list, show_subsystem(target, &snapshot->subsystems[i]));
	return list;
}

static void add_counters(struct json_object *o, const struct namespace *ns)
{
	struct namespace_counters sum;

	namespace_sum_counters(ns, &sum);
	control_add_counters(o, ns, &sum);
}

static void add_durability(struct json_object *o, const struct namespace *ns)
{
	const struct durability *is = durability_of(ns);
	struct json_object *durability = json_object_new_object();

	control_add_bool(durability, "volatile_write_cache", ns->has_cache);
	control_add_bool(durability, "write_through", ns->is_write_through);
	control_add_string(durability, "cache", is->cache);
	control_add_string(durability, "flush", is->flush);
	control_add_string(durability, "fua", is->fua);
	control_add_string(durability, "blocks", durability_blocks_of(ns));
	json_add(o, "durability", durability);
}

/* Where reservations are kept; how often that failed, or another rblkd was faster. */
static void add_state(struct json_object *o, const struct guard *guard)
{
	int error = atomic_load(&guard->state_error);

	control_add_string(o, "state_store", guard->store ? guard->store->place : NULL);
	control_add_bool(o, "state_shared", guard_is_shared(guard));
	control_add_number(o, "state_errors", atomic_load(&guard->n_state_errors));
	control_add_number(o, "state_conflicts", atomic_load(&guard->n_state_conflicts));
	control_add_string(o, "state_error", error ? record_strerror(error) : NULL);
}

static struct json_object *show_namespace(const struct target *target,
					  const struct subsystem *subsystem,
					  const struct namespace *ns)
{
	struct json_object *o = json_object_new_object();
	char uuid[UUID_STR_LEN];

	uuid_unparse_lower(ns->uuid, uuid);
	control_add_string(o, "subsystem", subsystem->nqn);
	control_add_number(o, "nsid", ns->nsid);
	control_add_string(o, "uuid", uuid);
	control_add_string(o, "kind", ns->kind);
	control_add_string(o, "path", ns->path);
	control_add_number(o, "size_bytes", ns->n_blocks << ns->block_shift);
	control_add_number(o, "block_size", 1U << ns->block_shift);
	control_add_bool(o, "read_only", ns->is_read_only);
	control_add_string(o, "state", control_namespace_state(ns));
	control_add_errors(o, ns);
	add_state(o, ns->guard);
	add_durability(o, ns);
	add_counters(o, ns);
	return o;
}

struct json_object *control_list_durability(struct target *target)
{
	const struct snapshot *snapshot = get_snapshot(target);
	struct json_object *list = json_object_new_array();

	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);) {
		struct json_object *o = json_object_new_object();

		control_add_string(o, "subsystem", at.subsystem->nqn);
		control_add_number(o, "nsid", at.ns->nsid);
		control_add_string(o, "kind", at.ns->kind);
		add_durability(o, at.ns);
		json_append(list, o);
	}
	return list;
}

static struct json_object *show_store(const struct subsystem *subsystem, struct namespace *ns,
				      unsigned *n_ill)
{
	struct json_object *o = json_object_new_object();
	char health[STORE_HEALTH_MAX] = "";
	bool is_well = ns->backend->ops->health(ns->backend, health, sizeof(health));

	control_add_string(o, "subsystem", subsystem->nqn);
	control_add_number(o, "nsid", ns->nsid);
	control_add_string(o, "kind", ns->kind);
	control_add_string(o, "path", ns->path);
	control_add_string(o, "health", health);
	json_add(o, "serving", json_object_new_boolean(is_well));
	add_state(o, ns->guard);
	*n_ill += !is_well;
	return o;
}

struct json_object *control_list_stores(struct target *target, unsigned *ret_ill)
{
	const struct snapshot *snapshot = get_snapshot(target);
	struct json_object *list = json_object_new_array();

	*ret_ill = 0;
	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);)
		if (at.ns->backend->ops->health)
			json_append(list, show_store(at.subsystem, at.ns, ret_ill));
	return list;
}

static struct json_object *list_namespaces(struct target *target)
{
	const struct snapshot *snapshot = get_snapshot(target);
	struct json_object *list = json_object_new_array();

	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);)
		json_append(list, show_namespace(target, at.subsystem, at.ns));
	return list;
}

/* ---- hosts and connections ------------------------------------------------------------------ */

const char *control_host_name(const struct target *target, const char *nqn)
{
	const struct config_host *host = config_find_host(target->config, nqn);

	return host ? host->name : NULL;
}

/* list may be NULL: no memory. */
static bool has_text(struct json_object *list, const char *text)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		if (!strcmp(json_object_get_string(json_object_array_get_idx(list, i)), text))
			return true;
	return false;
}

/* The identifiers by which the host is connected. */
static struct json_object *list_identifiers(const struct target *target, const char *nqn)
{
	struct json_object *list = json_object_new_array();
	char id[UUID_STR_LEN];

	list_for_each (node, &target->controllers) {
		const struct controller *c = list_entry(node, struct controller, node);

		uuid_unparse_lower(c->hostid, id);
		if (!c->is_discovery && !strcmp(c->hostnqn, nqn) && !has_text(list, id))
			json_append(list, json_object_new_string(id));
	}
	return list;
}

static struct json_object *show_host(const struct target *target, const char *nqn)
{
	const struct config_host *config = config_find_host(target->config, nqn);
	struct json_object *o = json_object_new_object();
	unsigned n_controllers = 0, n_queues = 0;

	list_for_each (node, &target->controllers) {
		const struct controller *c = list_entry(node, struct controller, node);

		if (strcmp(c->hostnqn, nqn))
			continue;
		n_controllers++;
		n_queues += controller_n_queues(c);
	}
	control_add_string(o, "name", control_host_name(target, nqn));
	control_add_string(o, "nqn", nqn);
	control_add_string(o, "bound_hostid", config ? config->hostid : NULL);
	json_add(o, "hostids", list_identifiers(target, nqn));
	control_add_number(o, "controllers", n_controllers);
	control_add_number(o, "queue_pairs", n_queues);
	return o;
}

/* Whether an earlier controller in the list is of the same host. */
static bool is_seen(const struct target *target, const struct controller *controller)
{
	list_for_each (node, &target->controllers) {
		const struct controller *c = list_entry(node, struct controller, node);

		if (c == controller)
			return false;
		if (!strcmp(c->hostnqn, controller->hostnqn))
			return true;
	}
	return false;
}

/* Hosts of the configuration, then others that are connected. */
static struct json_object *list_hosts(struct target *target)
{
	const struct config_host *hosts = target->config->hosts.items;
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < target->config->hosts.n; i++)
		json_append(list, show_host(target, hosts[i].nqn));
	list_for_each (node, &target->controllers) {
		const struct controller *c = list_entry(node, struct controller, node);

		if (!control_host_name(target, c->hostnqn) && !is_seen(target, c))
			json_append(list, show_host(target, c->hostnqn));
	}
	return list;
}

struct json_object *control_list_cut(const struct path_change *change)
{
	struct json_object *list = json_object_new_array();

	list_for_each (node, &change->target->controllers) {
		const struct controller *c = list_entry(node, struct controller, node);

		if (path_change_cuts(change, c) && !has_text(list, c->hostnqn))
			json_append(list, json_object_new_string(c->hostnqn));
	}
	return list;
}

unsigned control_count_hosts(const struct target *target)
{
	unsigned n = 0;

	list_for_each (node, &target->controllers) {
		n += !is_seen(target, list_entry(node, struct controller, node));
	}
	return n;
}

static struct json_object *show_connection(const struct target *target, const struct connection *c,
					   const struct load *load)
{
	const struct queue *queue = c->queue;
	const struct controller *controller = c->controller;
	struct json_object *o = json_object_new_object();

	control_add_string(o, "host", controller ? controller->hostnqn : NULL);
	control_add_string(o, "host_name",
			   controller ? control_host_name(target, controller->hostnqn) : NULL);
	control_add_string(o, "address", c->remote);
	control_add_string(o, "portal", c->portal->name);
	control_add_string(o, "subsystem", controller ? controller->subnqn : NULL);
	if (controller)
		json_add(o, "controller", json_object_new_int(controller->id));
	else
		json_add_null(o, "controller");
	control_add_number(o, "queue", queue->qid);
	control_add_number(o, "depth", queue->n_entries);
	control_add_number(o, "worker", queue->poller->index);
	control_add_string(o, "state", connection_state_name(c));
	control_add_seconds_since(o, "age_s", c->created_ns);
	control_add_number(o, "commands", counter_get(&queue->counters.n_commands));
	control_add_number(o, "read_bytes", counter_get(&queue->counters.read_bytes));
	control_add_number(o, "written_bytes", counter_get(&queue->counters.written_bytes));
	control_add_number(o, "errors", counter_get(&queue->counters.n_errors));
	loads_add(o, load);
	return o;
}

static struct json_object *list_connections(struct target *target)
{
	struct json_object *list = json_object_new_array();
	struct loads loads;

	loads_measure(target, &loads);
	list_for_each (node, &target->connections) {
		const struct connection *c = list_entry(node, struct connection, node);
		struct load load = loads_of(&loads, c);

		json_append(list, show_connection(target, c, &load));
	}
	loads_free(&loads);
	return list;
}

void control_count_namespaces(struct target *target, unsigned *ret_n, unsigned *ret_failed,
			      unsigned *ret_degraded)
{
	const struct snapshot *snapshot = get_snapshot(target);

	*ret_n = *ret_failed = *ret_degraded = 0;
	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);) {
		const char *state = control_namespace_state(at.ns);

		++*ret_n;
		*ret_failed += !strcmp(state, "failed");
		*ret_degraded += !strcmp(state, "degraded");
	}
}

unsigned control_count_unkept(struct target *target, unsigned *ret_refusing)
{
	const struct snapshot *snapshot = get_snapshot(target);
	unsigned n = 0;

	*ret_refusing = 0;
	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);) {
		struct guard *guard = at.ns->guard;

		n += atomic_load(&guard->is_unkept);
		*ret_refusing += guard_is_shared(guard) && atomic_load(&guard->state_error);
	}
	return n;
}

/* ---- all ------------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	struct json_object *(*list)(struct target *target);
} lists[] = {
	{"portals", control_list_portals}, {"subsystems", list_subsystems},
	{"namespaces", list_namespaces},   {"hosts", list_hosts},
	{"connections", list_connections},
};

struct json_object *control_list(struct target *target, const char *what)
{
	struct json_object *o = json_object_new_object();
	bool is_known = false;

	control_add_number(o, "schema", CONTROL_SCHEMA);
	for (unsigned i = 0; i < ARRAY_LEN(lists); i++) {
		if (what && strcmp(what, lists[i].name))
			continue;
		json_add(o, lists[i].name, lists[i].list(target));
		is_known = true;
	}
	if (is_known)
		return o;
	json_object_put(o);
	return NULL;
}
