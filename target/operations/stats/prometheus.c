/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics rblkd_*, written family by family, as the format requires. Scripts rely on names and
 * labels: new ones may be added, but none may change (rblkd(8) lists them). Times are seconds,
 * sizes bytes. Queues have no metrics of their own, because each connection would be a new series;
 * rblkctl stats --queues has them.
 *
 * Buckets end where octaves of rblkd's histograms end, 2^k - 1 ns, so their counts are exact.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rcu.h"
#include "target/operations/control/list.h"
#include "target/association/portal.h"
#include "target/association/host_stats.h"
#include "target/export/io_errors.h"
#include "target/operations/stats/prometheus.h"

enum {
	/* Buckets from 4 us to 8.6 s. */
	FIRST_BIT = 12,
	LAST_BIT = 33,
	LABEL_MAX = 4 * NVMF_NQN_MAX + 1,
};

/* In the order of the documentation. */
static const enum stats_class ops[] = {STATS_READ, STATS_WRITE, STATS_OTHER};

struct ns_row {
	const struct subsystem *subsystem;
	const struct namespace *ns;
	struct namespace_counters counters;
	struct namespace_stats stats;
	struct io_errors_figures errors;
};

struct rows {
	struct ns_row *namespaces; /* owned */
	unsigned n_namespaces;
	struct host_stats *hosts; /* owned */
	unsigned n_hosts;
};

/* ---- the format ----------------------------------------------------------------------------- */

static void family(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP rblkd_%s %s\n# TYPE rblkd_%s %s\n", name, help, name, type);
}

/* Hosts choose their names: bytes that are not printable ASCII become \xHH. */
static const char *escape(char buf[LABEL_MAX], const char *s)
{
	size_t at = 0;

	for (; *s && at + 6 < LABEL_MAX; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '\\' || c == '"') {
			buf[at++] = '\\';
			buf[at++] = (char)c;
		} else if (c >= ' ' && c <= '~') {
			buf[at++] = (char)c;
		} else {
			at += (size_t)sprintf(buf + at, "\\\\x%02x", c);
		}
	}
	buf[at] = '\0';
	return buf;
}

static void print_seconds(FILE *f, uint64_t ns)
{
	fprintf(f, "%" PRIu64 ".%09" PRIu64 "\n", (uint64_t)(ns / NSEC_PER_SEC),
		(uint64_t)(ns % NSEC_PER_SEC));
}

static void ns_labels(FILE *f, const char *name, const struct ns_row *row)
{
	char nqn[LABEL_MAX];

	fprintf(f, "rblkd_%s{subsystem=\"%s\",nsid=\"%u\"", name, escape(nqn, row->subsystem->nqn),
		row->ns->nsid);
}

static void host_labels(FILE *f, const char *name, const struct host_stats *host)
{
	char nqn[LABEL_MAX];

	fprintf(f, "rblkd_%s{host=\"%s\"", name, escape(nqn, host_stats_label(host)));
}

/* ---- rblkd ---------------------------------------------------------------------------------- */

static void write_one(FILE *f, const char *name, const char *type, const char *help, uint64_t value)
{
	family(f, name, type, help);
	fprintf(f, "rblkd_%s %" PRIu64 "\n", name, value);
}

static void write_daemon(FILE *f, const struct target *target)
{
	family(f, "info", "gauge", "Always 1; the label has the version.");
	fprintf(f, "rblkd_info{version=\"%s\"} 1\n", RBLK_VERSION);
	family(f, "uptime_seconds", "gauge", "Time since rblkd was started.");
	fputs("rblkd_uptime_seconds ", f);
	print_seconds(f, clock_ns() - target->start_ns);
	write_one(f, "connections", "gauge", "Queue pairs, also of hosts that connect.",
		  target->n_connections);
	write_one(f, "pending_connections", "gauge",
		  "Of them, whose host is not known or has not proven itself.", target->n_pending);
	write_one(f, "discovery_associations", "gauge", "Discovery controllers.",
		  target->n_discovery);
	write_one(f, "hosts", "gauge", "Hosts that are attached.", control_count_hosts(target));
	write_one(f, "defects_total", "counter", "Queues ended by a mistake of rblkd's own.",
		  target->n_defects);
	family(f, "portal_listening", "gauge", "1 while hosts can reach the portal.");
	for (unsigned i = 0; i < PORTALS_MAX; i++) {
		const struct portal *portal = &target->portals[i];

		if (portal_is_used(portal))
			fprintf(f, "rblkd_portal_listening{portal=\"%s\"} %d\n", portal->name,
				atomic_load(&portal->state) == PORTAL_LISTENING);
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
	{"namespace_unkept", "gauge",
	 "1 while the state directory may say of it what is not valid.", get_unkept},
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

static void write_ns_values(FILE *f, const struct rows *rows)
{
	for (unsigned i = 0; i < ARRAY_LEN(ns_values); i++) {
		family(f, ns_values[i].name, ns_values[i].type, ns_values[i].help);
		for (unsigned j = 0; j < rows->n_namespaces; j++) {
			const struct ns_row *row = &rows->namespaces[j];

			ns_labels(f, ns_values[i].name, row);
			fprintf(f, "} %" PRIu64 "\n", ns_values[i].get(row));
		}
	}
}

static void write_ns_bytes(FILE *f, const struct rows *rows)
{
	static const char name[] = "namespace_bytes_total";

	family(f, name, "counter", "Data that was read and written.");
	for (unsigned i = 0; i < rows->n_namespaces; i++) {
		const struct ns_row *row = &rows->namespaces[i];

		ns_labels(f, name, row);
		fprintf(f, ",op=\"read\"} %" PRIu64 "\n",
			row->counters.read_blocks << row->ns->block_shift);
		ns_labels(f, name, row);
		fprintf(f, ",op=\"write\"} %" PRIu64 "\n",
			row->counters.written_blocks << row->ns->block_shift);
	}
}

static void write_ns_errors(FILE *f, const struct rows *rows)
{
	static const char name[] = "namespace_errors_total";

	family(f, name, "counter", "Commands that were answered with an error.");
	for (unsigned i = 0; i < rows->n_namespaces; i++) {
		const struct ns_row *row = &rows->namespaces[i];

		for (unsigned op = 0; op < ARRAY_LEN(ops); op++) {
			ns_labels(f, name, row);
			fprintf(f, ",op=\"%s\"} %" PRIu64 "\n", stats_class_name(ops[op]),
				row->stats.io[ops[op]].n_errors);
		}
	}
}

static void write_ns_backend_errors(FILE *f, const struct rows *rows)
{
	static const char name[] = "namespace_backend_errors_total";

	family(f, name, "counter", "What its store has failed at.");
	for (unsigned i = 0; i < rows->n_namespaces; i++) {
		const struct ns_row *row = &rows->namespaces[i];

		for (unsigned kind = 0; kind < IO_ERROR_KINDS; kind++) {
			ns_labels(f, name, row);
			fprintf(f, ",kind=\"%s\"} %" PRIu64 "\n", io_error_kind_name(kind),
				row->errors.counts[kind]);
		}
	}
}

static void write_buckets(FILE *f, const struct ns_row *row, enum stats_class op)
{
	const struct io_stats *io = &row->stats.io[op];
	uint64_t n = 0;
	unsigned at = 0;

	for (unsigned bit = FIRST_BIT; bit <= LAST_BIT; bit++) {
		uint64_t end = (1ULL << bit) - 1;

		for (; at <= stats_step(end); at++)
			n += io->counts[at];
		ns_labels(f, "namespace_latency_seconds_bucket", row);
		fprintf(f, ",op=\"%s\",le=\"%" PRIu64 ".%09" PRIu64 "\"} %" PRIu64 "\n",
			stats_class_name(op), (uint64_t)(end / NSEC_PER_SEC),
			(uint64_t)(end % NSEC_PER_SEC), n);
	}
	n = io_stats_count(io);
	ns_labels(f, "namespace_latency_seconds_bucket", row);
	fprintf(f, ",op=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", stats_class_name(op), n);
}

static void write_ns_latency(FILE *f, const struct rows *rows)
{
	family(f, "namespace_latency_seconds", "histogram",
	       "Time from a command's arrival to its answer.");
	for (unsigned i = 0; i < rows->n_namespaces; i++)
		for (unsigned op = 0; op < ARRAY_LEN(ops); op++) {
			const struct ns_row *row = &rows->namespaces[i];
			const struct io_stats *io = &row->stats.io[ops[op]];

			write_buckets(f, row, ops[op]);
			ns_labels(f, "namespace_latency_seconds_sum", row);
			fprintf(f, ",op=\"%s\"} ", stats_class_name(ops[op]));
			print_seconds(f, io->sum_ns);
			ns_labels(f, "namespace_latency_seconds_count", row);
			fprintf(f, ",op=\"%s\"} %" PRIu64 "\n", stats_class_name(ops[op]),
				io_stats_count(io));
		}
}

static void write_ns_stages(FILE *f, const struct rows *rows)
{
	static const char samples[] = "namespace_stage_samples_total";
	static const char seconds[] = "namespace_stage_seconds_total";

	family(f, samples, "counter", "Commands whose stages were measured.");
	for (unsigned i = 0; i < rows->n_namespaces; i++)
		for (unsigned op = 0; op < ARRAY_LEN(ops); op++) {
			ns_labels(f, samples, &rows->namespaces[i]);
			fprintf(f, ",op=\"%s\"} %" PRIu64 "\n", stats_class_name(ops[op]),
				rows->namespaces[i].stats.io[ops[op]].n_sampled);
		}
	family(f, seconds, "counter", "Time that those commands spent in each stage.");
	for (unsigned i = 0; i < rows->n_namespaces; i++)
		for (unsigned n = 0; n < ARRAY_LEN(ops) * STAGES; n++) {
			enum stats_class op = ops[n / STAGES];

			ns_labels(f, seconds, &rows->namespaces[i]);
			fprintf(f, ",op=\"%s\",stage=\"%s\"} ", stats_class_name(op),
				stats_stage_name(n % STAGES));
			print_seconds(f, rows->namespaces[i].stats.io[op].stage_ns[n % STAGES]);
		}
}

/* ---- hosts ---------------------------------------------------------------------------------- */

static void write_hosts(FILE *f, const struct rows *rows)
{
	static const char *const names[][2] = {
		{"host_commands_total", "I/O commands of the host that were answered."},
		{"host_errors_total", "I/O commands of the host that failed."},
		{"host_seconds_total", "Time that its I/O commands took, together."}};

	for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
		family(f, names[i][0], "counter", names[i][1]);
		for (unsigned n = 0; n < rows->n_hosts * ARRAY_LEN(ops); n++) {
			const struct host_stats *host = &rows->hosts[n / ARRAY_LEN(ops)];
			enum stats_class op = ops[n % ARRAY_LEN(ops)];

			host_labels(f, names[i][0], host);
			fprintf(f, ",op=\"%s\"} ", stats_class_name(op));
			if (i == 2)
				print_seconds(f, host->io[op].sum_ns);
			else
				fprintf(f, "%" PRIu64 "\n",
					i ? host->io[op].n_errors : io_stats_count(&host->io[op]));
		}
	}
}

static void write_host_values(FILE *f, const struct rows *rows)
{
	family(f, "host_bytes_total", "counter", "Data that the host read and wrote.");
	for (unsigned i = 0; i < rows->n_hosts; i++) {
		host_labels(f, "host_bytes_total", &rows->hosts[i]);
		fprintf(f, ",op=\"read\"} %" PRIu64 "\n", rows->hosts[i].counters.read_bytes);
		host_labels(f, "host_bytes_total", &rows->hosts[i]);
		fprintf(f, ",op=\"write\"} %" PRIu64 "\n", rows->hosts[i].counters.written_bytes);
	}
	family(f, "host_queues", "gauge", "Queues that the host has now.");
	for (unsigned i = 0; i < rows->n_hosts; i++) {
		host_labels(f, "host_queues", &rows->hosts[i]);
		fprintf(f, "} %u\n", rows->hosts[i].n_queues);
	}
	family(f, "host_connects_total", "counter", "Queues that the host has had.");
	for (unsigned i = 0; i < rows->n_hosts; i++) {
		host_labels(f, "host_connects_total", &rows->hosts[i]);
		fprintf(f, "} %" PRIu64 "\n", rows->hosts[i].n_connects);
	}
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
	for (unsigned i = 0; i < snapshot->n_subsystems; i++)
		for (unsigned j = 0; j < snapshot->subsystems[i].n_namespaces; j++) {
			struct ns_row *row = &rows->namespaces[rows->n_namespaces++];

			row->subsystem = &snapshot->subsystems[i];
			row->ns = row->subsystem->namespaces[j];
			stats_sum_namespace(row->ns, &row->counters, &row->stats);
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

char *prometheus_text(struct target *target, size_t *ret_n)
{
	struct rows rows = {0};
	char *text = NULL;
	FILE *f = open_memstream(&text, ret_n);
	bool is_whole = f && collect_namespaces(target, &rows) && collect_hosts(target, &rows);

	if (is_whole) {
		write_daemon(f, target);
		write_ns_values(f, &rows);
		write_ns_bytes(f, &rows);
		write_ns_errors(f, &rows);
		write_ns_backend_errors(f, &rows);
		write_ns_latency(f, &rows);
		write_ns_stages(f, &rows);
		write_hosts(f, &rows);
		write_host_values(f, &rows);
		is_whole = !ferror(f);
	}
	if (f && fclose(f) != 0)
		is_whole = false;
	free(rows.namespaces);
	free(rows.hosts);
	if (is_whole)
		return text;
	free(text);
	return NULL;
}
