/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics rblkd_*, written family by family, as the format requires. Scripts rely on names and
 * labels: new ones may be added, but none may change (rblkd(8) lists them). Queues have no metrics
 * of their own, because each connection would be a new series; rblkctl stats --queues has them.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/prometheus.h"
#include "base/rcu.h"
#include "target/operations/control/list.h"
#include "target/operations/control/load.h"
#include "target/association/portal.h"
#include "target/association/host_stats.h"
#include "target/store/standby.h"
#include "target/export/io_errors.h"
#include "target/operations/ownership/group.h"
#include "target/operations/stats/prometheus.h"

enum {
	NUMBER_TEXT_MAX = 12,
};

/* In the order of the documentation. */
static const enum stats_class ops[] = {STATS_READ, STATS_WRITE, STATS_OTHER};

struct ns_row {
	const struct subsystem *subsystem;
	char nsid[NUMBER_TEXT_MAX];
	const struct namespace *ns;
	struct namespace_counters counters;
	struct namespace_stats stats;
	struct io_errors_figures errors;
};

struct rows {
	struct ns_row *namespaces; /* owned */
	unsigned n_namespaces;
	struct host_stats *hosts; /* owned */
	struct load *loads;	  /* owned; of each host */
	unsigned n_hosts;
};

/* With what follows, the labels of a namespace and of a host. */
#define NS_LABELS(row, ...)                                                                        \
	PROMETHEUS_LABELS({"subsystem", (row)->subsystem->nqn}, {"nsid", (row)->nsid},             \
			  ##__VA_ARGS__)
#define HOST_LABELS(of, ...) PROMETHEUS_LABELS({"host", host_stats_label(of)}, ##__VA_ARGS__)

/* ---- rblkd ---------------------------------------------------------------------------------- */

static void write_daemon(const struct prometheus *p, const struct target *target)
{
	prometheus_family(p, "info", "gauge", "Always 1; the label has the version.");
	prometheus_uint(p, "info", PROMETHEUS_LABELS({"version", RBLK_VERSION}), 1);
	prometheus_family(p, "uptime_seconds", "gauge", "Time since rblkd was started.");
	prometheus_seconds(p, "uptime_seconds", NULL, clock_ns() - target->start_ns);
	prometheus_one(p, "connections", "gauge", "Queue pairs, also of hosts that connect.", NULL,
		       target->n_connections);
	prometheus_one(p, "pending_connections", "gauge",
		       "Those whose host is not known or has not proven itself.", NULL,
		       target->n_pending);
	prometheus_one(p, "discovery_associations", "gauge", "Discovery controllers.", NULL,
		       target->n_discovery);
	prometheus_one(p, "hosts", "gauge", "Hosts that are attached.", NULL,
		       control_count_hosts(target));
	prometheus_one(p, "defects_total", "counter", "Queues ended by a mistake of rblkd's own.",
		       NULL, target->n_defects);
	prometheus_family(p, "portal_listening", "gauge", "1 while hosts can reach the portal.");
	for (unsigned i = 0; i < PORTALS_MAX; i++) {
		const struct portal *portal = &target->portals[i];

		if (portal_is_used(portal))
			prometheus_uint(p, "portal_listening",
					PROMETHEUS_LABELS({"portal", portal->name}),
					atomic_load(&portal->state) == PORTAL_LISTENING);
	}
}

/* ---- groups with one owner ------------------------------------------------------------------ */

static const char *id_of(const struct group *group, char ret_text[NUMBER_TEXT_MAX])
{
	snprintf(ret_text, NUMBER_TEXT_MAX, "%u", group->id);
	return ret_text;
}

/* Each cause has its sample, so that a first move is a change. */
static void write_moves(const struct prometheus *p, const struct group *group, const char *name,
			bool is_count)
{
	char id[NUMBER_TEXT_MAX];

	for (unsigned cause = 0; cause < GROUP_MOVE_CAUSES; cause++)
		prometheus_uint(p, name,
				PROMETHEUS_LABELS({"subsystem", group->subnqn},
						  {"group", id_of(group, id)},
						  {"cause", group_move_cause_name(cause)}),
				is_count ? group->moves[cause].n : group->moves[cause].last_s);
}

static void write_groups(const struct prometheus *p, const struct target *target)
{
	static const char owner[] = "group_owner", total[] = "group_moves_total",
			  last[] = "group_last_move_timestamp_seconds";
	char id[NUMBER_TEXT_MAX];

	prometheus_family(p, owner, "gauge", "1 while this rblkd is the owner of the group.");
	list_for_each (node, &target->groups) {
		const struct group *group = list_entry(node, struct group, node);

		prometheus_uint(p, owner,
				PROMETHEUS_LABELS({"subsystem", group->subnqn},
						  {"group", id_of(group, id)}),
				group->state == GROUP_OWNS);
	}
	prometheus_family(p, total, "counter",
			  "How often it became the owner, or ceased to own it.");
	list_for_each (node, &target->groups) {
		write_moves(p, list_entry(node, struct group, node), total, true);
	}
	prometheus_family(p, last, "gauge", "When it did last, since 1970; 0: never.");
	list_for_each (node, &target->groups) {
		write_moves(p, list_entry(node, struct group, node), last, false);
	}
}

/* ---- namespaces ----------------------------------------------------------------------------- */

static uint64_t get_size(const struct ns_row *row)
{
	return row->ns->n_blocks << row->ns->block_shift;
}
static uint64_t get_failed(const struct ns_row *row)
{
	return atomic_load(&row->ns->backend->has_failed);
}
static uint64_t get_stands_by(const struct ns_row *row)
{
	return backend_stands_by(row->ns->backend);
}
static uint64_t get_unkept(const struct ns_row *row)
{
	return atomic_load(&row->ns->guard->is_unkept);
}
static uint64_t get_degraded(const struct ns_row *row)
{
	return row->errors.is_degraded;
}
static uint64_t get_last_error(const struct ns_row *row)
{
	return row->errors.last.time_s;
}
static uint64_t get_in_flight(const struct ns_row *row)
{
	return row->counters.n_in_flight;
}
static uint64_t get_media_errors(const struct ns_row *row)
{
	return row->counters.n_media_errors;
}

static uint64_t get_state_errors(const struct ns_row *row)
{
	return atomic_load(&row->ns->guard->n_state_errors);
}
static uint64_t get_state_conflicts(const struct ns_row *row)
{
	return atomic_load(&row->ns->guard->n_state_conflicts);
}

static const struct {
	const char *name, *type, *help;
	uint64_t (*get)(const struct ns_row *row);
} ns_values[] = {
	{"namespace_size_bytes", "gauge", "Size of the namespace.", get_size},
	{"namespace_failed", "gauge", "1 after a flush failed.", get_failed},
	{"namespace_stands_by", "gauge", "1 while another rblkd may own its store.", get_stands_by},
	{"namespace_unkept", "gauge", "1 while its files in the state directory may be wrong.",
	 get_unkept},
	{"namespace_degraded", "gauge", "1 after its store failed, until cleared.", get_degraded},
	{"namespace_last_error_timestamp_seconds", "gauge",
	 "When its store failed last, since 1970; 0: never.", get_last_error},
	{"namespace_in_flight", "gauge", "Commands it has now.", get_in_flight},
	{"namespace_media_errors_total", "counter", "Errors of its medium.", get_media_errors},
	{"namespace_state_errors_total", "counter",
	 "Reservations and the like that could not be kept or read.", get_state_errors},
	{"namespace_state_conflicts_total", "counter",
	 "Changes of them that began again, as another rblkd had changed them.",
	 get_state_conflicts},
};

static void write_ns_values(const struct prometheus *p, const struct rows *rows)
{
	for (unsigned i = 0; i < ARRAY_LEN(ns_values); i++) {
		prometheus_family(p, ns_values[i].name, ns_values[i].type, ns_values[i].help);
		for (unsigned j = 0; j < rows->n_namespaces; j++) {
			const struct ns_row *row = &rows->namespaces[j];

			prometheus_uint(p, ns_values[i].name, NS_LABELS(row),
					ns_values[i].get(row));
		}
	}
}

static void write_ns_bytes(const struct prometheus *p, const struct rows *rows)
{
	static const char name[] = "namespace_bytes_total";

	prometheus_family(p, name, "counter", "Data that was read and written.");
	for (unsigned i = 0; i < rows->n_namespaces; i++) {
		const struct ns_row *row = &rows->namespaces[i];

		prometheus_uint(p, name, NS_LABELS(row, {"op", "read"}),
				row->counters.read_blocks << row->ns->block_shift);
		prometheus_uint(p, name, NS_LABELS(row, {"op", "write"}),
				row->counters.written_blocks << row->ns->block_shift);
	}
}

static void write_ns_errors(const struct prometheus *p, const struct rows *rows)
{
	static const char name[] = "namespace_errors_total";

	prometheus_family(p, name, "counter", "Commands that were answered with an error.");
	for (unsigned i = 0; i < rows->n_namespaces; i++) {
		const struct ns_row *row = &rows->namespaces[i];

		for (unsigned op = 0; op < ARRAY_LEN(ops); op++)
			prometheus_uint(p, name, NS_LABELS(row, {"op", stats_class_name(ops[op])}),
					row->stats.io[ops[op]].n_errors);
	}
}

static void write_ns_backend_errors(const struct prometheus *p, const struct rows *rows)
{
	static const char name[] = "namespace_backend_errors_total";

	prometheus_family(p, name, "counter", "I/O at which its store has failed.");
	for (unsigned i = 0; i < rows->n_namespaces; i++) {
		const struct ns_row *row = &rows->namespaces[i];

		for (unsigned kind = 0; kind < IO_ERROR_KINDS; kind++)
			prometheus_uint(p, name, NS_LABELS(row, {"kind", io_error_kind_name(kind)}),
					row->errors.counts[kind]);
	}
}

static void write_ns_latency(const struct prometheus *p, const struct rows *rows)
{
	static const char name[] = "namespace_latency_seconds";

	prometheus_family(p, name, "histogram", "Time from a command's arrival to its answer.");
	for (unsigned i = 0; i < rows->n_namespaces; i++)
		for (unsigned op = 0; op < ARRAY_LEN(ops); op++) {
			const struct ns_row *row = &rows->namespaces[i];
			struct histogram latency;

			io_stats_histogram(&row->stats.io[ops[op]], &latency);
			prometheus_histogram(p, name,
					     NS_LABELS(row, {"op", stats_class_name(ops[op])}),
					     &latency);
		}
}

static void write_ns_stages(const struct prometheus *p, const struct rows *rows)
{
	static const char samples[] = "namespace_stage_samples_total";
	static const char seconds[] = "namespace_stage_seconds_total";

	prometheus_family(p, samples, "counter", "Commands whose stages were measured.");
	for (unsigned i = 0; i < rows->n_namespaces; i++)
		for (unsigned op = 0; op < ARRAY_LEN(ops); op++)
			prometheus_uint(
				p, samples,
				NS_LABELS(&rows->namespaces[i], {"op", stats_class_name(ops[op])}),
				rows->namespaces[i].stats.io[ops[op]].n_sampled);
	prometheus_family(p, seconds, "counter", "Time that those commands spent in each stage.");
	for (unsigned i = 0; i < rows->n_namespaces; i++)
		for (unsigned n = 0; n < ARRAY_LEN(ops) * STAGES; n++) {
			enum stats_class op = ops[n / STAGES];

			prometheus_seconds(p, seconds,
					   NS_LABELS(&rows->namespaces[i],
						     {"op", stats_class_name(op)},
						     {"stage", stats_stage_name(n % STAGES)}),
					   rows->namespaces[i].stats.io[op].stage_ns[n % STAGES]);
		}
}

/* ---- hosts ---------------------------------------------------------------------------------- */

static void write_hosts(const struct prometheus *p, const struct rows *rows)
{
	static const char *const names[][2] = {
		{"host_commands_total", "I/O commands of the host that were answered."},
		{"host_errors_total", "I/O commands of the host that failed."},
		{"host_seconds_total", "Time that its I/O commands took, together."}};

	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		prometheus_family(p, names[i][0], "counter", names[i][1]);
		for (unsigned n = 0; n < rows->n_hosts * ARRAY_LEN(ops); n++) {
			const struct host_stats *host = &rows->hosts[n / ARRAY_LEN(ops)];
			enum stats_class op = ops[n % ARRAY_LEN(ops)];
			const struct io_stats *io = &host->io[op];
			const struct prometheus_label *labels = HOST_LABELS(
				host, {"op", stats_class_name(op)});

			if (i == 2)
				prometheus_seconds(p, names[i][0], labels, io->sum_ns);
			else
				prometheus_uint(p, names[i][0], labels,
						i ? io->n_errors : io_stats_count(io));
		}
	}
}

static void write_host_values(const struct prometheus *p, const struct rows *rows)
{
	static const char bytes[] = "host_bytes_total";

	prometheus_family(p, bytes, "counter", "Data that the host read and wrote.");
	for (unsigned i = 0; i < rows->n_hosts; i++) {
		const struct host_stats *host = &rows->hosts[i];

		prometheus_uint(p, bytes, HOST_LABELS(host, {"op", "read"}),
				host->counters.read_bytes);
		prometheus_uint(p, bytes, HOST_LABELS(host, {"op", "write"}),
				host->counters.written_bytes);
	}
	prometheus_family(p, "host_queues", "gauge", "Queues that the host has now.");
	for (unsigned i = 0; i < rows->n_hosts; i++)
		prometheus_uint(p, "host_queues", HOST_LABELS(&rows->hosts[i]),
				rows->hosts[i].n_queues);
	prometheus_family(p, "host_connects_total", "counter", "Queues that the host has had.");
	for (unsigned i = 0; i < rows->n_hosts; i++)
		prometheus_uint(p, "host_connects_total", HOST_LABELS(&rows->hosts[i]),
				rows->hosts[i].n_connects);
}

/* The resources that the host holds and others may wait for. */
static void write_host_loads(const struct prometheus *p, const struct rows *rows)
{
	prometheus_family(p, "host_in_flight", "gauge", "Commands of the host, admin ones too.");
	for (unsigned i = 0; i < rows->n_hosts; i++)
		prometheus_uint(p, "host_in_flight", HOST_LABELS(&rows->hosts[i]),
				rows->loads[i].n_commands);
	prometheus_family(p, "host_oldest_command_seconds", "gauge", "Age of the oldest of them.");
	for (unsigned i = 0; i < rows->n_hosts; i++)
		prometheus_seconds(p, "host_oldest_command_seconds", HOST_LABELS(&rows->hosts[i]),
				   rows->loads[i].oldest_ns);
	prometheus_family(p, "host_buffer_bytes", "gauge", "Memory for data that they hold.");
	for (unsigned i = 0; i < rows->n_hosts; i++)
		prometheus_uint(p, "host_buffer_bytes", HOST_LABELS(&rows->hosts[i]),
				rows->loads[i].buffer_bytes);
	prometheus_family(p, "host_takes_no_data_seconds", "gauge",
			  "How long the host has not taken the data of a response.");
	for (unsigned i = 0; i < rows->n_hosts; i++)
		prometheus_seconds(p, "host_takes_no_data_seconds", HOST_LABELS(&rows->hosts[i]),
				   rows->loads[i].takes_no_ns);
}

/* ---- all ------------------------------------------------------------------------------------ */

static bool collect_namespaces(struct target *target, struct rows *rows)
{
	const struct snapshot *snapshot = rcu_get(&target->snapshot);
	unsigned n, n_failed, n_degraded;

	control_count_namespaces(target, &n, &n_failed, &n_degraded);
	rows->namespaces = aligned_alloc(_Alignof(struct ns_row),
					 (n + 1) * sizeof(*rows->namespaces));
	if (!rows->namespaces)
		return false;
	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);) {
		struct ns_row *row = &rows->namespaces[rows->n_namespaces++];

		row->subsystem = at.subsystem;
		row->ns = at.ns;
		snprintf(row->nsid, sizeof(row->nsid), "%u", row->ns->nsid);
		namespace_sum_stats(row->ns, &row->counters, &row->stats);
		io_errors_read(row->ns, &row->errors);
	}
	return true;
}

static bool collect_hosts(struct target *target, struct rows *rows)
{
	unsigned n = 1;

	list_for_each (node, &target->host_stats) {
		n++;
	}
	rows->hosts = calloc(n, sizeof(*rows->hosts));
	if (!rows->hosts)
		return false;
	list_for_each (node, &target->host_stats) {
		host_stats_sum(target, list_entry(node, struct host_stats, node),
			       &rows->hosts[rows->n_hosts++]);
	}
	if (target->other_hosts->n_connects)
		host_stats_sum(target, target->other_hosts, &rows->hosts[rows->n_hosts++]);
	return true;
}

static bool collect_loads(struct target *target, struct rows *rows)
{
	struct loads loads;

	rows->loads = calloc(rows->n_hosts + 1, sizeof(*rows->loads));
	if (!rows->loads)
		return false;
	loads_measure(target, &loads);
	for (unsigned i = 0; i < rows->n_hosts; i++)
		if (!rows->hosts[i].is_rest)
			rows->loads[i] = loads_of_host(&loads, rows->hosts[i].nqn);
	loads_free(&loads);
	return true;
}

char *prometheus_text(struct target *target, size_t *ret_n)
{
	struct rows rows = {0};
	char *text = NULL;
	FILE *f = open_memstream(&text, ret_n);
	const struct prometheus p = {f, "rblkd_"};
	bool is_whole = f && collect_namespaces(target, &rows) && collect_hosts(target, &rows) &&
			collect_loads(target, &rows);

	if (is_whole) {
		write_daemon(&p, target);
		write_groups(&p, target);
		write_ns_values(&p, &rows);
		write_ns_bytes(&p, &rows);
		write_ns_errors(&p, &rows);
		write_ns_backend_errors(&p, &rows);
		write_ns_latency(&p, &rows);
		write_ns_stages(&p, &rows);
		write_hosts(&p, &rows);
		write_host_values(&p, &rows);
		write_host_loads(&p, &rows);
		is_whole = !ferror(f);
	}
	if (f && fclose(f) != 0)
		is_whole = false;
	free(rows.namespaces);
	free(rows.hosts);
	free(rows.loads);
	if (is_whole)
		return text;
	free(text);
	return NULL;
}
