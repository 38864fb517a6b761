/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qos_list {"name"}, qos_set {"name", "qos": {"iops": "1000", "burst": "1s", "read_bandwidth":
 * "none"}}: the rate limits of namespaces and hosts, and their effect so far. Control thread.
 *
 * qos_set changes the running configuration, as if the file had those limits. So a host that
 * reconnects has them too, diff compares them with the file, and apply restores the file's.
 */
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/conf_guess.h"
#include "base/conf_schema.h"
#include "base/json.h"
#include "base/rcu.h"
#include "base/rpc_request.h"
#include "target/config/schema.h"
#include "target/operations/control/list.h"
#include "target/operations/control/qos.h"
#include "target/association/host.h"
#include "target/association/host_stats.h"

enum {
	TYPICAL_BYTES = 4096, /* of a command whose wait is estimated */
};

static const char *text(struct json_object *o, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(o, key, &value);
	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

/* ---- namespaces and hosts with limits ------------------------------------------------------- */

/* A namespace or a host of the configuration. */
struct limited {
	struct config_qos *qos;
	const struct subsystem *subsystem; /* of a namespace */
	struct namespace *ns;
	const struct config_host *host;
};

static struct namespace *find_namespace(const struct target *target, const char *subnqn,
					uint64_t nsid, struct limited *ret)
{
	ret->subsystem = snapshot_find(rcu_get(&target->snapshot), subnqn);
	ret->ns = ret->subsystem ? subsystem_namespace(ret->subsystem, (uint32_t)nsid) : NULL;
	return ret->ns;
}

/* Calls visit for each namespace, then for each host. */
static void for_each(struct target *target,
		     void (*visit)(struct target *target, const struct limited *one, void *context),
		     void *context)
{
	const struct config_subsystem *subsystems = target->config->subsystems.items;
	struct config_host *hosts = target->config->hosts.items;

	for (unsigned i = 0; i < target->config->subsystems.n; i++) {
		struct config_namespace *namespaces = subsystems[i].namespaces.items;

		for (unsigned j = 0; j < subsystems[i].namespaces.n; j++) {
			struct limited one = {.qos = &namespaces[j].qos};

			if (find_namespace(target, subsystems[i].nqn, namespaces[j].nsid, &one))
				visit(target, &one, context);
		}
	}
	for (unsigned i = 0; i < target->config->hosts.n; i++)
		visit(target, &(struct limited){.qos = &hosts[i].qos, .host = &hosts[i]}, context);
}

/* "NQN/NSID" is a namespace; a host has its name or its NQN. */
static bool is_named(const struct limited *one, const char *name)
{
	char label[NVMF_NQN_MAX + 16];

	if (one->host)
		return !strcmp(name, one->host->name) || !strcmp(name, one->host->nqn);
	snprintf(label, sizeof(label), "%s/%u", one->subsystem->nqn, one->ns->nsid);
	return !strcmp(name, label);
}

static void *no_such_name(struct error *error, const char *name)
{
	return rpc_refuse(
		error, EXIT_NOT_FOUND,
		"a namespace is NQN/NSID, a host one of hosts in the configuration: rblkctl qos list",
		"there is no namespace or host '%s'", name);
}

/* ---- list ----------------------------------------------------------------------------------- */

struct listing {
	const char *name; /* NULL: all */
	struct json_object *namespaces, *hosts;
};

static void add_limit(struct json_object *o, const char *key, uint64_t limit)
{
	if (limit)
		control_add_number(o, key, limit);
	else
		json_add_null(o, key);
}

static struct json_object *show_qos(const struct config_qos *qos)
{
	struct json_object *o = json_object_new_object();

	add_limit(o, "iops", qos->iops);
	add_limit(o, "read_bandwidth", qos->read_bandwidth);
	add_limit(o, "write_bandwidth", qos->write_bandwidth);
	control_add_number(o, "burst_ns", qos->burst_ns);
	return o;
}

/* How long the last command of a full queue waits: tuning.queue_depth commands of 4 KiB, of one
 * queue that has the limit to itself. 0: no limit. */
static uint64_t full_queue_wait_ns(const struct config_qos *qos, uint64_t depth)
{
	const struct {
		uint64_t units, limit;
	} rates[] = {{depth, qos->iops},
		     {depth * TYPICAL_BYTES, qos->read_bandwidth},
		     {depth * TYPICAL_BYTES, qos->write_bandwidth}};
	uint64_t wait_ns = 0;

	for (unsigned i = 0; i < ARRAY_LEN(rates); i++)
		if (rates[i].limit)
			wait_ns = MAX(wait_ns, rates[i].units * NSEC_PER_SEC / rates[i].limit);
	return wait_ns;
}

static void add_counters(struct json_object *o, const struct io_stats io[STATS_CLASSES],
			 uint64_t read_bytes, uint64_t written_bytes)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < STATS_CLASSES; i++)
		n += io_stats_count(&io[i]);
	control_add_number(o, "operations", n);
	control_add_number(o, "read_bytes", read_bytes);
	control_add_number(o, "written_bytes", written_bytes);
}

static void add_namespace_counters(struct json_object *o, const struct target *target,
				   const struct namespace *ns)
{
	struct namespace_counters sum;
	struct namespace_stats stats;

	namespace_sum_stats(ns, &sum, &stats);
	add_counters(o, stats.io, sum.read_blocks << ns->block_shift,
		     sum.written_blocks << ns->block_shift);
}

static void add_host_counters(struct json_object *o, const struct target *target, const char *nqn)
{
	struct host_stats sum = {0};

	list_for_each (node, &target->host_stats) {
		const struct host_stats *host = list_entry(node, struct host_stats, node);

		if (!strcmp(host->nqn, nqn))
			host_stats_sum(target, host, &sum);
	}
	add_counters(o, sum.io, sum.counters.read_bytes, sum.counters.written_bytes);
}

static void show(struct target *target, const struct limited *one, void *context)
{
	struct listing *listing = context;
	struct json_object *o;

	if (listing->name && !is_named(one, listing->name))
		return;
	o = json_object_new_object();
	if (one->host) {
		control_add_string(o, "host", one->host->nqn);
		control_add_string(o, "host_name", one->host->name);
		add_host_counters(o, target, one->host->nqn);
	} else {
		control_add_string(o, "subsystem", one->subsystem->nqn);
		control_add_number(o, "nsid", one->ns->nsid);
		add_namespace_counters(o, target, one->ns);
	}
	json_add(o, "qos", show_qos(one->qos));
	add_limit(o, "full_queue_wait_ns",
		  full_queue_wait_ns(one->qos, target->config->tuning.queue_depth));
	json_append(one->host ? listing->hosts : listing->namespaces, o);
}

struct json_object *control_qos_list(void *context, struct json_object *params, struct error *error)
{
	struct listing listing = {.name = text(params, "name"),
				  .namespaces = json_object_new_array(),
				  .hosts = json_object_new_array()};
	struct json_object *o;

	for_each(context, show, &listing);
	if (listing.name && !json_object_array_length(listing.namespaces) &&
	    !json_object_array_length(listing.hosts)) {
		json_object_put(listing.namespaces);
		json_object_put(listing.hosts);
		return no_such_name(error, listing.name);
	}
	o = json_object_new_object();
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_number(o, "time_ns", clock_ns());
	json_add(o, "namespaces", listing.namespaces);
	json_add(o, "hosts", listing.hosts);
	return o;
}

/* ---- set ------------------------------------------------------------------------------------ */

struct search {
	const char *name;
	struct limited found;
};

static void compare(struct target *target, const struct limited *one, void *context)
{
	struct search *search = context;

	if (!search->found.qos && is_named(one, search->name))
		search->found = *one;
}

/* NULL: none (the error has the message). */
static const struct conf_key *find_key(const char *name, struct error *error)
{
	const char *names[8] = {NULL}, *guess;
	unsigned n = 0;

	for (const struct conf_key *key = config_qos_schema.keys; key->name; key++) {
		if (!strcmp(key->name, name))
			return key;
		if (n < ARRAY_LEN(names) - 1)
			names[n++] = key->name;
	}
	guess = conf_did_you_mean(name, names);
	return rpc_refuse(error, EXIT_USAGE, "iops, read_bandwidth, write_bandwidth or burst",
			  "qos has no key '%s'%s%s%s", name, guess ? " (did you mean '" : "",
			  guess ? guess : "", guess ? "'?)" : "");
}

static bool read_value(const char *name, const char *value, struct config_qos *qos,
		       struct error *error)
{
	const struct conf_key *key = find_key(name, error);
	struct error wrong;

	if (!key)
		return false;
	if (!strcmp(value, "none") && !key->default_value) {
		memset((char *)qos + key->offset, 0, sizeof(uint64_t));
		return true;
	}
	if (conf_parse_value(key, value, qos, &wrong) == 0)
		return true;
	rpc_refuse(error, EXIT_USAGE, "rblk-target.yaml(5), RATES, has what may stand there",
		   "%s %s", key->name, wrong.message);
	return false;
}

static bool read_all(struct json_object *params, struct config_qos *qos, struct error *error)
{
	struct json_object *values = NULL;

	json_object_object_get_ex(params, "qos", &values);
	if (!json_object_is_type(values, json_type_object) || !json_object_object_length(values)) {
		rpc_refuse(error, EXIT_USAGE, "such as iops=1000", "there is nothing to set");
		return false;
	}
	json_object_object_foreach(values, name, value)
	{
		const char *string = json_object_get_string(value);

		if (!read_value(name, string ? string : "", qos, error))
			return false;
	}
	return true;
}

struct json_object *control_qos_set(void *context, struct json_object *params, struct error *error)
{
	struct target *target = context;
	const char *name = text(params, "name");
	struct search search = {.name = name ? name : ""};
	struct config_qos qos;
	const char *why_not = target_refuse_change(target);
	struct json_object *o;

	if (why_not)
		return rpc_refuse(error, EXIT_BUSY, "", "%s", why_not);
	for_each(target, compare, &search);
	if (!search.found.qos)
		return no_such_name(error, search.name);
	qos = *search.found.qos;
	if (!read_all(params, &qos, error))
		return NULL;
	*search.found.qos = qos;
	if (search.found.ns)
		qos_set(&search.found.ns->qos, &qos);
	else
		hosts_set_qos(target);
	o = json_object_new_object();
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_string(o, "name", search.name);
	json_add(o, "qos", show_qos(&qos));
	return o;
}
