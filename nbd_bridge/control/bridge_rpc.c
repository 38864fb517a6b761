/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/rpc_request.h"
#include "initiator/control/volume.h"
#include "nbd_bridge/control/bridge_clients.h"
#include "nbd_bridge/control/bridge_json.h"
#include "nbd_bridge/control/bridge_options.h"
#include "nbd_bridge/control/bridge_path.h"
#include "nbd_bridge/control/bridge_rpc.h"
#include "nbd_bridge/control/bridge_state.h"
#include "nbd_bridge/control/bridge_stop.h"
#include "nbd_bridge/control/figures.h"
#include "nbd_bridge/control/metrics.h"

/* The one that it was attached by, or the first if that was removed. */
static const union addr *first_address(const struct bridge *bridge,
				       const struct volume_status *status)
{
	const union addr *first = &bridge->config->volume.address;

	for (unsigned i = 0; i < status->n_paths; i++)
		if (addr_is_equal(first, &status->paths[i].address))
			return first;
	return status->n_paths ? &status->paths[0].address : first;
}

static void put_target(struct json_object *o, const struct bridge *bridge,
		       const struct volume_status *status)
{
	const struct volume_config *config = &bridge->config->volume;
	char address[ADDR_STRING_MAX];

	put_string(o, "subsystem", config->subnqn);
	put_string(o, "address", addr_format(address, first_address(bridge, status)));
	put_uint(o, "nsid", config->nsid);
	put_string(o, "hostnqn", config->hostnqn);
	put_seconds(o, "keep_alive_s", config->keep_alive_ns);
	put_seconds(o, "reconnect_delay_s", config->reconnect_delay_ns);
	put_seconds(o, "ctrl_loss_tmo_s", config->ctrl_loss_tmo_ns);
	put_seconds(o, "fast_io_fail_tmo_s", config->fast_io_fail_tmo_ns);
}

static void put_namespace(struct json_object *o, const struct bridge *bridge)
{
	const struct volume_info *info = &bridge->info;
	char uuid[UUID_STR_LEN] = "";

	if (!uuid_is_null(info->uuid))
		uuid_unparse_lower(info->uuid, uuid);
	put_uint(o, "size_bytes", info->size_bytes);
	put_uint(o, "block_size", info->block_size);
	put_uint(o, "max_io_bytes", info->max_io_bytes);
	put_bool(o, "read_only", info->is_read_only || bridge->config->is_read_only);
	put_string(o, "uuid", uuid);
	put_string(o, "serial", info->serial);
	put_string(o, "model", info->model);
	put_uint(o, "queues", info->n_queues_granted);
	put_uint(o, "buffer_bytes", info->n_queues_granted * info->slab_bytes);
}

static void put_error(struct json_object *to, const char *at, const struct error *error)
{
	struct json_object *o;

	if (!*error->message) {
		json_add_null(to, at);
		return;
	}
	o = json_object_new_object();
	json_add(o, "code", json_object_new_int((int)error->code));
	put_string(o, "message", error->message);
	put_string(o, "hint", error->hint);
	if (error->at_ns)
		put_uint(o, "age_s", (clock_ns() - error->at_ns) / NSEC_PER_SEC);
	else
		json_add_null(o, "age_s");
	json_add(to, at, o);
}

/* I/O that has failed: how often, by operation, and the last. */
static void put_io_errors(struct json_object *to, const struct volume_io_figures *figures)
{
	const struct volume_io_error *last = &figures->last;
	struct json_object *counts = json_object_new_object(), *o;
	time_t then = (time_t)last->time_s, now = clock_wall_s();
	char text[32] = "";
	struct tm tm;

	put_uint(to, "io_errors", figures->n);
	for (unsigned i = 0; i < VOLUME_OPS; i++)
		put_uint(counts, bridge_op_names[i], figures->counts[i]);
	json_add(to, "io_errors_by_operation", counts);
	if (!figures->n) {
		json_add_null(to, "last_io_error");
		return;
	}
	o = json_object_new_object();
	if (gmtime_r(&then, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	put_string(o, "time", text);
	put_uint(o, "age_s", now > then ? (uint64_t)(now - then) : 0);
	put_string(o, "operation", last->operation);
	if (last->blocks)
		put_uint(o, "lba", last->lba);
	else
		json_add_null(o, "lba");
	put_uint(o, "blocks", last->blocks);
	put_string(o, "error", last->words);
	json_add(to, "last_io_error", o);
}

/* Whether the writes of lost associations are over. */
static void put_fencing(struct json_object *to, const struct volume_fencing *fencing)
{
	static const char *const states[FENCING_STATES] = {
		[FENCING_NONE] = "none",       [FENCING_AWAITS] = "awaits a controller",
		[FENCING_ASKS] = "asks",       [FENCING_HOLDS] = "by time",
		[FENCING_PROVEN] = "proven",   [FENCING_UNKNOWN] = "unknown",
		[FENCING_TRUSTED] = "trusted",
	};
	static const char *const counts[FENCING_WAYS] = {
		[FENCING_RESET] = "resets",
		[FENCING_TIME] = "holds",
		[FENCING_CONNECT] = "connects",
		[FENCING_WORD] = "words",
	};
	struct json_object *o = json_object_new_object(), *by = json_object_new_object();
	char address[ADDR_STRING_MAX];

	put_string(o, "state", states[fencing->state]);
	put_uint(o, "left_s", (fencing->left_ns + NSEC_PER_SEC - 1) / NSEC_PER_SEC);
	put_uint(o, "associations", fencing->n_associations);
	put_uint(o, "held", fencing->n_changes);
	for (unsigned i = 0; i < FENCING_WAYS; i++)
		put_uint(by, counts[i], fencing->n_by[i]);
	json_add(o, "proven_by", by);
	if (fencing->state == FENCING_PROVEN || fencing->state == FENCING_TRUSTED)
		put_string(o, "last_proof", bridge_way_names[fencing->last_way]);
	else
		json_add_null(o, "last_proof");
	if (fencing->state == FENCING_UNKNOWN)
		put_string(o, "waits_for", addr_format(address, &fencing->waits_for));
	else
		json_add_null(o, "waits_for");
	json_add(to, "fencing", o);
}

/* "paths" is their number, as it ever was. */
static void put_paths(struct json_object *to, const struct volume_status *status)
{
	struct json_object *array = json_object_new_array();
	char address[ADDR_STRING_MAX];

	put_uint(to, "paths_live", status->n_paths_live);
	put_uint(to, "paths", MAX(status->n_paths, 1u));
	for (unsigned i = 0; i < status->n_paths; i++) {
		const struct volume_path_status *path = &status->paths[i];
		struct json_object *o = json_object_new_object();

		put_string(o, "address", addr_format(address, &path->address));
		put_string(o, "state", volume_path_state_name(path->state));
		put_seconds(o, "state_since_s",
			    path->state_since_ns ? clock_ns() - path->state_since_ns : 0);
		put_bool(o, "found", path->is_found);
		put_bool(o, "used", path->is_used);
		if (path->ana_state)
			put_string(o, "ana_state", path->ana_state);
		else
			json_add_null(o, "ana_state");
		put_uint(o, "cntlid", path->cntlid);
		put_string(o, "rdma_device", path->device);
		put_uint(o, "queues_live", path->n_queues_live);
		put_uint(o, "in_flight", path->n_in_flight);
		put_uint(o, "commands", path->n_commands);
		if (path->latency_ns)
			put_uint(o, "latency_ns", path->latency_ns);
		else
			json_add_null(o, "latency_ns");
		put_uint(o, "losses", path->n_losses);
		put_bool(o, "unflushed", path->has_unflushed);
		put_error(o, "last_error", &path->last_error);
		json_append(array, o);
	}
	json_add(to, "path_list", array);
}

/* The discovery controllers of --find-paths, if there are some. */
static void put_discovery(struct json_object *to, const struct volume_status *status)
{
	struct json_object *array = json_object_new_array();

	for (unsigned i = 0; i < status->n_services; i++) {
		const struct volume_service_status *service = &status->services[i];
		struct json_object *o = json_object_new_object();
		char address[ADDR_STRING_MAX];

		put_string(o, "address", addr_format(address, &service->address));
		put_string(o, "state", service->state);
		put_seconds(o, "state_since_s", clock_ns() - service->state_since_ns);
		put_bool(o, "referral", service->is_referral);
		if (service->has_log) {
			put_uint(o, "generation", service->generation);
			put_seconds(o, "changed_s", clock_ns() - service->changed_ns);
		} else {
			json_add_null(o, "generation");
			json_add_null(o, "changed_s");
		}
		put_uint(o, "portals", service->n_portals);
		put_error(o, "last_error", &service->last_error);
		json_append(array, o);
	}
	json_add(to, "discovery", array);
}

/* As they are now: paths may have been added and removed. */
static struct json_object *options_to_json(const struct bridge *bridge,
					   const struct volume_status *status)
{
	struct bridge_config config = *bridge->config;
	const union addr *first = first_address(bridge, status);

	if (status->n_paths)
		config.volume.n_others = 0;
	for (unsigned i = 0; i < status->n_paths; i++)
		if (!addr_is_equal(first, &status->paths[i].address))
			config.volume.others[config.volume.n_others++] = status->paths[i].address;
	return bridge_options(&config);
}

static void put_association(struct json_object *o, const struct bridge *bridge,
			    const struct volume_status *status)
{
	put_string(o, "state", volume_state_name(status->state));
	put_seconds(o, "state_since_s",
		    status->state_since_ns ? clock_ns() - status->state_since_ns : 0);
	put_seconds(o, "gives_up_in_s",
		    volume_state_holds(status->state) ? status->gives_up_in_ns : UINT64_MAX);
	put_paths(o, status);
	put_discovery(o, status);
	put_uint(o, "queues_live", status->n_queues_live);
	put_uint(o, "reconnects", status->n_reconnects);
	put_uint(o, "buffer_bytes_used", status->backed_bytes);
	put_uint(o, "held", status->n_held);
	put_uint(o, "in_flight", status->n_in_flight);
	put_bool(o, "unflushed", status->has_unflushed);
	put_bool(o, "memory_windows", bridge->config->volume.has_windows);
	put_uint(o, "keys_invalidated", status->n_invalidated);
	put_uint(o, "keys_revoked", status->n_revoked);
	put_uint(o, "cntlid", status->cntlid);
	put_string(o, "rdma_device", status->device);
	if (status->ana_state)
		put_string(o, "ana_state", status->ana_state);
	else
		json_add_null(o, "ana_state");
	put_uint(o, "ana_group", status->ana_group);
	put_fencing(o, &status->fencing);
	put_error(o, "last_error", &status->last_error);
	put_io_errors(o, &status->io_errors);
}

static void put_frontends(struct json_object *o, const struct bridge *bridge)
{
	char uri[BRIDGE_URI_MAX];

	put_string(o, "device", bridge_device(bridge));
	put_string(o, "uri", bridge_uri(bridge, uri));
	put_string(o, "socket", bridge->config->sockets.path ?: "");
}

static struct json_object *call_status(void *context, struct json_object *params,
				       struct error *error)
{
	const struct bridge *bridge = context;
	struct json_object *o = json_object_new_object();
	struct volume_status status;

	bridge_get_status(bridge, &status);
	json_add(o, "schema", json_object_new_int(1));
	put_string(o, "name", bridge->config->name);
	json_add(o, "pid", json_object_new_int(getpid()));
	put_string(o, "version", RBLK_VERSION);
	put_frontends(o, bridge);
	put_target(o, bridge, &status);
	put_namespace(o, bridge);
	put_association(o, bridge, &status);
	json_add(o, "options", options_to_json(bridge, &status));
	put_bool(o, "capturing", bridge->captures.is_running);
	put_uint(o, "connection_moves", bridge->pool.n_moves);
	json_add(o, "workers", bridge_workers_to_json(bridge));
	json_add(o, "connections", bridge_conns_to_json(bridge));
	return o;
}

static struct json_object *class_to_json(const struct volume_stats *stats, unsigned class)
{
	const struct histogram *h = &stats->of[class].latency;
	struct json_object *o = json_object_new_object();

	put_uint(o, "count", h->n);
	put_uint(o, "errors", stats->n_errors[class]);
	put_uint(o, "sum_ns", h->sum_ns);
	put_uint(o, "p50_ns", histogram_quantile(h, 0.5));
	put_uint(o, "p99_ns", histogram_quantile(h, 0.99));
	put_uint(o, "p999_ns", histogram_quantile(h, 0.999));
	json_add(o, "histogram", json_of_histogram(h));
	return o;
}

/* The same keys as in rblkctl stats, so that scripts and rblk read both. */
static struct json_object *call_stats(void *context, struct json_object *params,
				      struct error *error)
{
	const struct bridge *bridge = context;
	struct json_object *o = json_object_new_object(), *io = json_object_new_object();
	struct volume_status status;
	struct volume_stats stats;

	bridge_get_status(bridge, &status);
	bridge_get_stats(bridge, &stats);
	json_add(o, "schema", json_object_new_int(1));
	put_string(o, "name", bridge->config->name);
	put_uint(o, "time_ns", clock_ns());
	put_target(o, bridge, &status);
	put_uint(o, "held", status.n_held);
	put_uint(o, "in_flight", status.n_in_flight);
	put_uint(o, "reads", stats.of[VOLUME_CLASS_READ].latency.n);
	put_uint(o, "writes", stats.of[VOLUME_CLASS_WRITE].latency.n);
	put_uint(o, "read_bytes", stats.of[VOLUME_CLASS_READ].n_bytes);
	put_uint(o, "written_bytes", stats.of[VOLUME_CLASS_WRITE].n_bytes);
	for (unsigned i = 0; i < VOLUME_CLASSES; i++)
		json_add(io, bridge_class_names[i], class_to_json(&stats, i));
	json_add(o, "io", io);
	return o;
}

/* A client of the sockets, the kernel's connections aside; NULL if there is none. */
static const struct nbd_conn *find_user(const struct bridge *bridge)
{
	list_for_each (node, &bridge->conns) {
		const struct nbd_conn *conn = list_entry(node, struct nbd_conn, owned);

		if (conn->client != CLIENT_KERNEL)
			return conn;
	}
	return NULL;
}

static struct json_object *call_detach(void *context, struct json_object *params,
				       struct error *error)
{
	struct bridge *bridge = context;
	const struct nbd_conn *user = find_user(bridge);
	struct json_object *force = NULL, *o;

	if (params)
		json_object_object_get_ex(params, "force", &force);
	if (user && !json_object_get_boolean(force)) {
		error->code = EXIT_BUSY;
		snprintf(error->message, sizeof(error->message), "%s is busy: used by %s",
			 bridge->config->name, user->peer);
		snprintf(error->hint, sizeof(error->hint),
			 "end that program, or use --force to cut it off");
		return NULL;
	}
	o = json_object_new_object();
	json_add(o, "pid", json_object_new_int(getpid()));
	bridge_stop(bridge, false);
	return o;
}

static struct json_object *call_reopen(void *context, struct json_object *params,
				       struct error *error)
{
	struct bridge *bridge = context;

	if (bridge->state == BRIDGE_SERVING && volume_reopen(bridge->volume) == 0)
		return call_status(bridge, params, error);
	error->code = EXIT_BUSY;
	snprintf(error->message, sizeof(error->message), "%s has not failed", bridge->config->name);
	return NULL;
}

static struct json_object *call_path_add(void *context, struct json_object *params,
					 struct error *error)
{
	return bridge_path_add(context, params, error) == 0 ? call_status(context, NULL, error)
							    : NULL;
}

static struct json_object *call_path_remove(void *context, struct json_object *params,
					    struct error *error)
{
	return bridge_path_remove(context, params, error) == 0 ? call_status(context, NULL, error)
							       : NULL;
}

static struct json_object *call_capture(void *context, struct json_object *params,
					struct error *error)
{
	struct bridge *bridge = context;

	return capture_service_call(&bridge->captures, params, error);
}

static struct json_object *call_metrics(void *context, struct json_object *params,
					struct error *error)
{
	struct bridge *bridge = context;
	struct json_object *o;
	size_t n;
	char *text = bridge_metrics_text(bridge, &n);

	if (!text)
		return rpc_refuse(error, EXIT_FAILED, NULL, "out of memory");
	o = json_object_new_object();
	json_add(o, "schema", json_object_new_int(1));
	put_string(o, "name", bridge->config->name);
	put_string(o, "text", text);
	free(text);
	return o;
}

const struct rpc_method bridge_rpc_methods[] = {
	{"status", call_status},
	{"stats", call_stats},
	{"metrics", call_metrics},
	{"reopen", call_reopen},
	{"detach", call_detach},
	{"capture", call_capture},
	{"path.add", call_path_add},
	{"path.remove", call_path_remove},
	{NULL, NULL},
};
