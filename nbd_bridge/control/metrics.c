/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The metrics of a volume: what status and stats tell on the control socket (bridge_rpc.c), as
 * families of Prometheus. Scripts rely on names and labels: new ones may be added, but none may
 * change (rblk(8) lists them). Clients have no series of their own, for they come and go: there
 * are sums, and the worst of them.
 */
#include <stdlib.h>

#include "base/bits.h"
#include "base/http.h"
#include "base/prometheus.h"
#include "initiator/control/volume.h"
#include "nbd_bridge/control/figures.h"
#include "nbd_bridge/control/metrics.h"

/* The figures to write, and where to. */
struct metrics {
	struct prometheus p;
	const struct bridge *bridge;
	const char *volume;
	struct volume_status status;
	struct volume_stats stats;
	struct client_figures clients;
	uint64_t n_copied_out;
};

/* The label that all have, with what follows. */
#define LABELS(m, ...) PROMETHEUS_LABELS({"volume", (m)->volume}, ##__VA_ARGS__)

static void gauge(const struct metrics *m, const char *name, const char *help, uint64_t value)
{
	prometheus_one(&m->p, name, "gauge", help, LABELS(m), value);
}

static void counter(const struct metrics *m, const char *name, const char *help, uint64_t value)
{
	prometheus_one(&m->p, name, "counter", help, LABELS(m), value);
}

/* How long ago that was; 0 if it was not. */
static void age(const struct metrics *m, const char *name, const char *help, uint64_t since_ns)
{
	prometheus_family(&m->p, name, "gauge", help);
	prometheus_seconds(&m->p, name, LABELS(m), since_ns ? bridge_age_ns(since_ns) : 0);
}

static void write_up(const struct prometheus *p, const char *volume, bool is_up)
{
	prometheus_one(p, "up", "gauge", "1 while the volume's process answers.",
		       PROMETHEUS_LABELS({"volume", volume}), is_up);
}

/* ---- the volume ----------------------------------------------------------------------------- */

static void write_info(const struct metrics *m)
{
	const struct volume_config *config = &m->bridge->config->volume;
	char nsid[12];

	snprintf(nsid, sizeof(nsid), "%u", config->nsid);
	prometheus_one(
		&m->p, "info", "gauge", "Always 1; the labels say what it is.",
		LABELS(m, {"version", RBLK_VERSION}, {"subsystem", config->subnqn}, {"nsid", nsid}),
		1);
	write_up(&m->p, m->volume, true);
	age(m, "uptime_seconds", "Time since the process was started.", m->bridge->start_ns);
}

static void write_states(const struct metrics *m)
{
	prometheus_family(&m->p, "state", "gauge", "1 for the state that the volume has.");
	for (unsigned state = 0; state <= VOLUME_CLOSING; state++)
		prometheus_uint(&m->p, "state", LABELS(m, {"state", volume_state_name(state)}),
				m->status.state == state);
}

static void write_volume(const struct metrics *m)
{
	const struct volume_info *info = &m->bridge->info;

	write_info(m);
	write_states(m);
	gauge(m, "size_bytes", "Size of the volume.", info->size_bytes);
	gauge(m, "queues_live", "I/O queues that are connected.", m->status.n_queues_live);
	gauge(m, "in_flight", "I/O that the target has now.", m->status.n_in_flight);
	gauge(m, "held", "I/O that waits for the target.", m->status.n_held);
	counter(m, "reconnects_total", "How often the target came back.", m->status.n_reconnects);
	gauge(m, "buffer_bytes", "Memory for data that it may use.",
	      info->n_queues_granted * info->slab_bytes);
	gauge(m, "buffer_used_bytes", "Buffers in use, or kept registered.",
	      m->status.backed_bytes);
}

/* ---- paths ---------------------------------------------------------------------------------- */

static uint64_t get_live(const struct volume_path_status *path)
{
	return path->state == VOLUME_PATH_LIVE;
}
static uint64_t get_used(const struct volume_path_status *path)
{
	return path->is_used;
}
static uint64_t get_in_flight(const struct volume_path_status *path)
{
	return path->n_in_flight;
}
static uint64_t get_commands(const struct volume_path_status *path)
{
	return path->n_commands;
}
static uint64_t get_losses(const struct volume_path_status *path)
{
	return path->n_losses;
}

static const struct {
	const char *name, *type, *help;
	uint64_t (*get)(const struct volume_path_status *path);
} path_values[] = {
	{"path_live", "gauge", "1 while the path is connected.", get_live},
	{"path_used", "gauge", "1 while new I/O may take the path.", get_used},
	{"path_in_flight", "gauge", "Commands that the path has now.", get_in_flight},
	{"path_commands_total", "counter", "Commands that the path has answered.", get_commands},
	{"path_losses_total", "counter", "How often the path was lost.", get_losses},
};

static void write_paths(const struct metrics *m)
{
	static const char latency[] = "path_latency_seconds";
	const struct volume_status *status = &m->status;
	char address[ADDR_STRING_MAX];

	gauge(m, "paths", "Paths that the volume has.", MAX(status->n_paths, 1u));
	gauge(m, "paths_live", "Paths that are connected.", status->n_paths_live);
	for (unsigned i = 0; i < ARRAY_LEN(path_values); i++) {
		prometheus_family(&m->p, path_values[i].name, path_values[i].type,
				  path_values[i].help);
		for (unsigned j = 0; j < status->n_paths; j++)
			prometheus_uint(
				&m->p, path_values[i].name,
				LABELS(m, {"address",
					   addr_format(address, &status->paths[j].address)}),
				path_values[i].get(&status->paths[j]));
	}
	prometheus_family(&m->p, latency, "gauge",
			  "Latency of small commands; missing before the first.");
	for (unsigned j = 0; j < status->n_paths; j++)
		if (status->paths[j].latency_ns)
			prometheus_seconds(
				&m->p, latency,
				LABELS(m, {"address",
					   addr_format(address, &status->paths[j].address)}),
				status->paths[j].latency_ns);
}

/* ---- I/O ------------------------------------------------------------------------------------ */

static void write_io(const struct metrics *m)
{
	static const char latency[] = "io_latency_seconds", bytes[] = "io_bytes_total";
	static const char errors[] = "io_errors_total";
	const struct volume_io_figures *failed = &m->status.io_errors;

	prometheus_family(&m->p, latency, "histogram",
			  "Time of I/O that succeeded, pauses of the connection included.");
	for (unsigned i = 0; i < VOLUME_CLASSES; i++)
		prometheus_histogram(&m->p, latency, LABELS(m, {"op", bridge_class_names[i]}),
				     &m->stats.of[i].latency);
	prometheus_family(&m->p, bytes, "counter", "Data that was read and written.");
	for (unsigned i = 0; i < VOLUME_CLASS_OTHER; i++)
		prometheus_uint(&m->p, bytes, LABELS(m, {"op", bridge_class_names[i]}),
				m->stats.of[i].n_bytes);
	prometheus_family(&m->p, errors, "counter", "I/O that has failed for good.");
	for (unsigned i = 0; i < VOLUME_OPS; i++)
		prometheus_uint(&m->p, errors, LABELS(m, {"op", bridge_op_names[i]}),
				failed->counts[i]);
	gauge(m, "last_io_error_timestamp_seconds", "When I/O failed last, since 1970; 0: never.",
	      failed->n ? failed->last.time_s : 0);
}

static void write_fencing(const struct metrics *m)
{
	static const char proofs[] = "fencing_proofs_total";
	const struct volume_fencing *fencing = &m->status.fencing;

	gauge(m, "fencing_associations", "Lost associations that may still bring writes.",
	      fencing->n_associations);
	gauge(m, "fencing_held", "I/O that waits for the proof that they bring none.",
	      fencing->n_changes);
	prometheus_family(&m->p, proofs, "counter", "How lost associations came to their end.");
	for (unsigned i = 0; i < FENCING_WAYS; i++)
		prometheus_uint(&m->p, proofs, LABELS(m, {"way", bridge_way_names[i]}),
				fencing->n_by[i]);
}

static void write_clients(const struct metrics *m)
{
	const struct client_figures *clients = &m->clients;

	gauge(m, "clients", "NBD clients, the kernel's connections with them.", m->bridge->n_conns);
	gauge(m, "client_requests", "Requests of NBD clients in flight.", clients->n_requests);
	age(m, "client_oldest_request_seconds", "Age of the oldest request; 0: there is none.",
	    clients->oldest_ns);
	gauge(m, "client_held_bytes", "Memory that requests of NBD clients hold.",
	      clients->n_held_bytes);
	gauge(m, "client_copied_out_bytes", "The part of it that was copied out of the buffers.",
	      clients->n_copied_bytes);
	gauge(m, "clients_blocked", "NBD clients that take no replies now.", clients->n_blocked);
	age(m, "client_blocked_seconds", "The longest time that one has taken none; 0: none.",
	    clients->blocked_ns);
	counter(m, "copied_out_parts_total",
		"Parts of I/O copied out, for their client stood still while others waited.",
		m->n_copied_out);
}

/* ---- all ------------------------------------------------------------------------------------ */

static void collect(struct metrics *m)
{
	const struct bridge *bridge = m->bridge;

	bridge_get_status(bridge, &m->status);
	bridge_get_stats(bridge, &m->stats);
	list_for_each (node, &bridge->conns) {
		const struct nbd_conn *conn = list_entry(node, struct nbd_conn, owned);

		client_figures_add(&m->clients, &conn->figures);
	}
	list_for_each (node, &bridge->pool.workers) {
		const struct worker *worker = list_entry(node, struct worker, node);

		m->n_copied_out += counter_get(&worker->nbd.stats.n_copied_out);
	}
}

/* Takes the stream of text; NULL instead of a text that is not whole. */
static char *finish(FILE *f, char **text)
{
	bool is_whole = !ferror(f);

	if (fclose(f) == 0 && is_whole)
		return *text;
	free(*text);
	return NULL;
}

char *bridge_metrics_text(const struct bridge *bridge, size_t *ret_n)
{
	struct metrics m = {.bridge = bridge, .volume = bridge->config->name};
	char *text = NULL;

	m.p = (struct prometheus){open_memstream(&text, ret_n), "rblk_"};
	if (!m.p.f)
		return NULL;
	collect(&m);
	write_volume(&m);
	write_paths(&m);
	write_io(&m);
	write_fencing(&m);
	write_clients(&m);
	return finish(m.p.f, &text);
}

char *bridge_metrics_up(const char *volume, bool is_up)
{
	char *text = NULL;
	size_t n;
	const struct prometheus p = {open_memstream(&text, &n), "rblk_"};

	if (!p.f)
		return NULL;
	write_up(&p, volume, is_up);
	return finish(p.f, &text);
}

static char *make(void *context, size_t *ret_n)
{
	return bridge_metrics_text(context, ret_n);
}

int bridge_metrics_start(struct bridge *bridge, struct error *error)
{
	const struct http_config config = {
		.loop = &bridge->loop,
		.where = bridge->config->metrics,
		.address = bridge->config->metrics_address,
		.program = "rblk",
		.if_taken = "each volume needs a port of its own: --metrics ADDRESS:PORT",
		.if_forbidden = "in a unit: RestrictAddressFamilies=AF_INET AF_INET6 in a drop-in",
		.make = make,
		.context = bridge,
	};

	return config.where ? http_start(&config, &bridge->http, error) : 0;
}

void bridge_metrics_stop(struct bridge *bridge)
{
	http_stop(bridge->http);
	bridge->http = NULL;
}
