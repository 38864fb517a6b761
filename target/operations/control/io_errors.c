/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors of stores, in status and in the list of namespaces; and
 *
 *   clear {"name"}    an administrator acknowledges them: of all namespaces, those of a subsystem
 *                     ("NQN"), or one ("NQN/NSID"); counters stay
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/rcu.h"
#include "base/rpc_request.h"
#include "target/operations/control/io_errors.h"
#include "target/export/io_errors.h"
#include "target/store/standby.h"

static struct json_object *show_last(const struct io_error *error)
{
	struct json_object *o = json_object_new_object();
	time_t then = (time_t)error->time_s, now = clock_wall_s();
	char text[32] = "";
	struct tm tm;

	if (gmtime_r(&then, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	control_add_string(o, "time", text);
	control_add_number(o, "age_s", now > then ? (uint64_t)(now - then) : 0);
	control_add_string(o, "operation", error->operation);
	if (error->blocks)
		control_add_number(o, "lba", error->lba);
	else
		json_add_null(o, "lba");
	control_add_number(o, "blocks", error->blocks);
	control_add_string(o, "error", error->words);
	control_add_string(o, "errno", *error->name ? error->name : NULL);
	control_add_string(o, "host", error->host);
	return o;
}

static void add_figures(struct json_object *o, const struct io_errors_figures *figures)
{
	struct json_object *kinds = json_object_new_object();

	for (unsigned i = 0; i < IO_ERROR_KINDS; i++)
		control_add_number(kinds, io_error_kind_name(i), figures->counts[i]);
	json_add(o, "backend_errors", kinds);
	if (io_errors_total(figures))
		json_add(o, "last_error", show_last(&figures->last));
	else
		json_add_null(o, "last_error");
}

void control_add_errors(struct json_object *o, const struct namespace *ns)
{
	struct io_errors_figures figures;

	io_errors_read(ns, &figures);
	add_figures(o, &figures);
}

const char *control_namespace_state(const struct namespace *ns)
{
	struct io_errors_figures figures;

	if (backend_stands_by(ns->backend))
		return "standing by";
	if (atomic_load(&ns->backend->has_failed))
		return "failed";
	io_errors_read(ns, &figures);
	if (figures.is_degraded)
		return "degraded";
	return atomic_load(&ns->guard->is_unkept) ? "unkept" : "ok";
}

struct json_object *control_list_errors(struct target *target)
{
	const struct snapshot *snapshot = rcu_get(&target->snapshot);
	struct json_object *list = json_object_new_array();

	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);) {
		struct io_errors_figures figures;
		struct json_object *o;

		io_errors_read(at.ns, &figures);
		if (!io_errors_total(&figures))
			continue;
		o = json_object_new_object();
		control_add_string(o, "subsystem", at.subsystem->nqn);
		control_add_number(o, "nsid", at.ns->nsid);
		control_add_string(o, "path", at.ns->path);
		control_add_string(o, "state", control_namespace_state(at.ns));
		add_figures(o, &figures);
		json_append(list, o);
	}
	return list;
}

/* ---- clear ---------------------------------------------------------------------------------- */

static bool clear(struct namespace *ns)
{
	bool was_refusing = atomic_exchange(&ns->guard->state_error, 0);

	return io_errors_clear(ns) || was_refusing;
}

struct json_object *control_clear(void *context, struct json_object *params, struct error *error)
{
	struct target *target = context;
	const struct snapshot *snapshot = rcu_get(&target->snapshot);
	unsigned n_meant = 0, n_cleared = 0;
	struct json_object *o, *value = NULL;
	const char *name;

	json_object_object_get_ex(params, "name", &value);
	name = value ? json_object_get_string(value) : NULL;
	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);) {
		if (!subsystem_is_named(at.subsystem, at.ns, name))
			continue;
		n_meant++;
		n_cleared += clear(at.ns);
	}
	if (name && !n_meant)
		return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list namespaces",
				  "there is no namespace '%s'", name);
	if (n_cleared)
		log_info("errors of %u namespace%s are cleared", n_cleared,
			 n_cleared == 1 ? "" : "s");
	o = json_object_new_object();
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_number(o, "cleared", n_cleared);
	return o;
}
