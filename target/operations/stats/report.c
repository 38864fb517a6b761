/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters as JSON. Counters only grow: the difference of two answers is what happened in between:
 *
 *   {"schema": 1, "time_ns": 123, "sample": 16, "namespaces": [
 *     {"subsystem": "nqn...", "nsid": 1, "reads": ..., "read_bytes": ..., "io": {
 *        "read": {"count": 3, "errors": 0, "sum_ns": 54321, "p50_ns": ..., "p99_ns": ...,
 *                 "p999_ns": ..., "stages": {"samples": 1, "receive_ns": 500, ...},
 *                 "histogram": [[17407, 2], [21503, 1]]},
 *        "write": ..., "other": ...}}]}
 *
 * A histogram has pairs of a duration and the number of commands that took at most that long, but
 * longer than the previous duration. Stages are sums over the sampled commands.
 */
#include <string.h>

#include "base/json.h"
#include "base/clock.h"
#include "base/rcu.h"
#include "base/rpc_request.h"
#include "target/association/connection.h"
#include "target/operations/control/list.h"
#include "target/association/controller.h"
#include "target/association/host_stats.h"
#include "target/operations/stats/report.h"

/* ---- one set of counters -------------------------------------------------------------------- */

static struct json_object *show_stages(const struct io_stats *stats)
{
	struct json_object *o = json_object_new_object();

	control_add_number(o, "samples", stats->n_sampled);
	for (unsigned i = 0; i < STAGES; i++) {
		char key[32];

		snprintf(key, sizeof(key), "%s_ns", stats_stage_name(i));
		control_add_number(o, key, stats->stage_ns[i]);
	}
	return o;
}

static struct json_object *show_class(const struct io_stats *stats)
{
	struct json_object *o = json_object_new_object();
	struct histogram h;

	io_stats_histogram(stats, &h);
	control_add_number(o, "count", h.n);
	control_add_number(o, "errors", stats->n_errors);
	control_add_number(o, "sum_ns", h.sum_ns);
	control_add_number(o, "p50_ns", histogram_quantile(&h, 0.5));
	control_add_number(o, "p99_ns", histogram_quantile(&h, 0.99));
	control_add_number(o, "p999_ns", histogram_quantile(&h, 0.999));
	json_add(o, "stages", show_stages(stats));
	json_add(o, "histogram", json_of_histogram(&h));
	return o;
}

static void add_io(struct json_object *o, const struct io_stats io[STATS_CLASSES])
{
	struct json_object *classes = json_object_new_object();

	for (unsigned i = 0; i < STATS_CLASSES; i++)
		json_add(classes, stats_class_name(i), show_class(&io[i]));
	json_add(o, "io", classes);
}

static void add_counters(struct json_object *o, const struct queue_counters *c)
{
	control_add_number(o, "commands", counter_get(&c->n_commands));
	control_add_number(o, "reads", counter_get(&c->n_reads));
	control_add_number(o, "writes", counter_get(&c->n_writes));
	control_add_number(o, "read_bytes", counter_get(&c->read_bytes));
	control_add_number(o, "written_bytes", counter_get(&c->written_bytes));
	control_add_number(o, "errors", counter_get(&c->n_errors));
}

/* ---- namespaces, hosts, queues -------------------------------------------------------------- */

static struct json_object *show_namespace(const struct target *target,
					  const struct subsystem *subsystem,
					  const struct namespace *ns)
{
	struct json_object *o = json_object_new_object();
	struct namespace_counters sum;
	struct namespace_stats stats;

	namespace_sum_stats(ns, &sum, &stats);
	control_add_string(o, "subsystem", subsystem->nqn);
	control_add_number(o, "nsid", ns->nsid);
	control_add_number(o, "in_flight", sum.n_in_flight);
	control_add_counters(o, ns, &sum);
	control_add_number(o, "media_errors", sum.n_media_errors);
	add_io(o, stats.io);
	return o;
}

static struct json_object *list_namespaces(struct target *target, const char *name)
{
	const struct snapshot *snapshot = rcu_get(&target->snapshot);
	struct json_object *list = json_object_new_array();

	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);)
		if (subsystem_is_named(at.subsystem, at.ns, name))
			json_append(list, show_namespace(target, at.subsystem, at.ns));
	return list;
}

static struct json_object *show_host(const struct target *target, const struct host_stats *host)
{
	struct json_object *o = json_object_new_object();
	struct host_stats sum;

	host_stats_sum(target, host, &sum);
	control_add_string(o, "host", host_stats_label(&sum));
	control_add_string(o, "host_name", control_host_name(target, sum.nqn));
	control_add_number(o, "queues", sum.n_queues);
	control_add_number(o, "connects", sum.n_connects);
	add_counters(o, &sum.counters);
	add_io(o, sum.io);
	return o;
}

static struct json_object *list_hosts(struct target *target, const char *name)
{
	struct json_object *list = json_object_new_array();

	list_for_each (node, &target->host_stats) {
		json_append(list, show_host(target, list_entry(node, struct host_stats, node)));
	}
	if (target->other_hosts->n_connects)
		json_append(list, show_host(target, target->other_hosts));
	return list;
}

static struct json_object *show_queue(const struct connection *c)
{
	const struct queue *queue = c->queue;
	const struct controller *controller = c->controller;
	struct json_object *o = json_object_new_object();
	struct io_stats io[STATS_CLASSES] = {0}; /* its poller still counts in its own */

	for (unsigned i = 0; i < STATS_CLASSES; i++)
		io_stats_merge(&io[i], &queue->io[i]);
	control_add_string(o, "host", controller->hostnqn);
	control_add_string(o, "host_name", control_host_name(c->target, controller->hostnqn));
	control_add_string(o, "subsystem", controller->subnqn);
	control_add_string(o, "address", c->remote);
	control_add_number(o, "controller", controller->id);
	control_add_number(o, "queue", queue->qid);
	control_add_number(o, "worker", queue->poller->index);
	add_counters(o, &queue->counters);
	add_io(o, io);
	return o;
}

/* Admin queues move no data. */
static struct json_object *list_queues(struct target *target, const char *name)
{
	struct json_object *list = json_object_new_array();

	list_for_each (node, &target->connections) {
		const struct connection *c = list_entry(node, struct connection, node);

		if (c->controller && c->queue->qid)
			json_append(list, show_queue(c));
	}
	return list;
}

/* ---- the method ----------------------------------------------------------------------------- */

static const struct {
	const char *name;
	struct json_object *(*list)(struct target *target, const char *name);
} lists[] = {
	{"namespaces", list_namespaces},
	{"hosts", list_hosts},
	{"queues", list_queues},
};

static const char *get_string(struct json_object *params, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(params, key, &value);
	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
}

struct json_object *control_stats(void *context, struct json_object *params, struct error *error)
{
	const char *what = get_string(params, "what"), *name = get_string(params, "name");
	struct json_object *o, *list = NULL;

	what = what ? what : "namespaces";
	for (unsigned i = 0; i < ARRAY_LEN(lists) && !list; i++)
		if (!strcmp(lists[i].name, what))
			list = lists[i].list(context, name);
	if (!list)
		return rpc_refuse(error, EXIT_USAGE, "namespaces, hosts and queues",
				  "there are no counters of '%s'", what);
	if (name && !strcmp(what, "namespaces") && !json_object_array_length(list)) {
		json_object_put(list);
		return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list namespaces",
				  "there is no namespace '%s'", name);
	}
	o = json_object_new_object();
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_number(o, "time_ns", clock_ns());
	control_add_number(o, "sample", STATS_SAMPLE);
	json_add(o, what, list);
	return o;
}
