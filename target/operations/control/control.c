/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   status           state of the daemon: uptime, portals, numbers
 *   list {"what"}    subsystems, namespaces, hosts, connections or portals; without "what" all
 *   ns_resize        ns.c
 *   diff, apply      apply.c
 *   drain            portal.c
 *   ana_list, ana_set    ana.c
 *   stats            target/operations/stats/report.c
 *   capsules         capsules.c
 *   capture          capture.c
 *   qos_list, qos_set    qos.c
 *   clear            io_errors.c
 *   registrant_list, registrant_drop    registrant.c
 *   host_disconnect    host.c
 *   upgrade            upgrade.c
 *   group_list, group_give    group.c
 *
 * The state is "degraded" if the store of a namespace had an error or its cluster does not serve, a
 * state file may differ from the valid state, or a portal does not listen.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/rcu.h"
#include "base/rpc.h"
#include "base/rpc_request.h"
#include "base/rpc_server.h"
#include "base/run_dir.h"
#include "target/operations/control/ana.h"
#include "target/operations/control/apply.h"
#include "target/operations/control/capsules.h"
#include "target/operations/control/capture.h"
#include "target/operations/control/control.h"
#include "target/operations/control/fencing.h"
#include "target/operations/control/group.h"
#include "target/operations/control/host.h"
#include "target/operations/control/io_errors.h"
#include "target/operations/control/list.h"
#include "target/operations/control/load.h"
#include "target/operations/control/ns.h"
#include "target/operations/control/portal.h"
#include "target/operations/control/qos.h"
#include "target/operations/control/registrant.h"
#include "target/operations/control/upgrade.h"
#include "target/export/state_file.h"
#include "target/export/health/health.h"
#include "target/association/portal.h"
#include "target/operations/stats/report.h"

struct control {
	/* Thread: control */
	struct rpc_server *server; /* owned */
};

/* ---- methods -------------------------------------------------------------------------------- */

/* The file of the SMART counts, which survive a restart; or why there is none. */
static struct json_object *show_smart(const struct target *target)
{
	const struct health *health = target->runtime.health;
	struct json_object *o = json_object_new_object();
	int error = atomic_load(&health->error);

	control_add_string(o, "directory",
			   health->directory ? state_directory_path(health->directory) : NULL);
	control_add_string(o, "error", error ? strerror(-error) : NULL);
	return o;
}

/* The limits whose counts status shows. */
static struct json_object *show_limits(const struct config_limits *limits)
{
	struct json_object *o = json_object_new_object();

	control_add_number(o, "connections", limits->connections);
	control_add_number(o, "pending_connections", limits->pending);
	control_add_number(o, "discovery_associations",
			   MIN(limits->discovery, MAX(limits->connections / 2, 1)));
	return o;
}

static struct json_object *call_status(void *context, struct json_object *params,
				       struct error *error)
{
	struct target *target = context;
	struct json_object *o = json_object_new_object();
	unsigned n_namespaces, n_failed, n_degraded, n_up = portals_n_listening(target);
	unsigned n_refusing, n_unkept = control_count_unkept(target, &n_refusing), n_ill;
	struct json_object *stores = control_list_stores(target, &n_ill), *upgrade;
	bool is_well = !n_unkept && !target->n_defects && n_up == portals_n_used(target);

	control_count_namespaces(target, &n_namespaces, &n_failed, &n_degraded);
	is_well = is_well && !n_failed && !n_degraded && !n_ill && !n_refusing;
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_string(o, "program", "rblkd");
	control_add_string(o, "version", RBLK_VERSION);
	control_add_number(o, "pid", (uint64_t)getpid());
	control_add_seconds_since(o, "uptime_s", target->start_ns);
	control_add_string(o, "state",
			   !target_is_serving(target) ? "stopping"
			   : is_well		      ? "ok"
						      : "degraded");
	control_add_number(o, "workers", target->n_pollers);
	control_add_number(o, "portals_up", n_up);
	json_add(o, "portals", control_list_portals(target));
	control_add_number(o, "subsystems", rcu_get(&target->snapshot)->n_subsystems);
	control_add_number(o, "namespaces", n_namespaces);
	control_add_number(o, "failed_namespaces", n_failed);
	control_add_number(o, "unkept_namespaces", n_unkept);
	control_add_number(o, "refusing_namespaces", n_refusing);
	control_add_number(o, "defects", target->n_defects);
	control_add_number(o, "degraded_namespaces", n_degraded);
	json_add(o, "errors", control_list_errors(target));
	json_add(o, "stores", stores);
	json_add(o, "durability", control_list_durability(target));
	json_add(o, "fencing", control_show_fencing(target));
	json_add(o, "groups", control_list_groups(target));
	json_add(o, "smart", show_smart(target));
	if ((upgrade = control_show_upgrade(target)))
		json_add(o, "upgrade", upgrade);
	json_add(o, "holders", control_list_holders(target));
	control_add_number(o, "hosts", control_count_hosts(target));
	control_add_number(o, "connections", target->n_connections);
	control_add_number(o, "pending_connections", target->n_pending);
	control_add_number(o, "discovery_associations", target->n_discovery);
	json_add(o, "capturing", json_object_new_boolean(control_is_capturing(target)));
	json_add(o, "limits", show_limits(&target->config->limits));
	return o;
}

static struct json_object *call_list(void *context, struct json_object *params, struct error *error)
{
	struct json_object *value = NULL, *lists;

	json_object_object_get_ex(params, "what", &value);
	lists = control_list(context, value ? json_object_get_string(value) : NULL);
	if (lists)
		return lists;
	return rpc_refuse(error, EXIT_USAGE,
			  "portals, subsystems, namespaces, hosts and connections",
			  "there is no list of that name");
}

static const struct rpc_method methods[] = {
	{"status", call_status},
	{"list", call_list},
	{"ns_resize", control_ns_resize},
	{"diff", control_diff},
	{"apply", control_apply},
	{"drain", control_drain},
	{"ana_list", control_ana_list},
	{"ana_set", control_ana_set},
	{"stats", control_stats},
	{"capsules", control_capsules},
	{"qos_list", control_qos_list},
	{"qos_set", control_qos_set},
	{"clear", control_clear},
	{"registrant_list", control_registrant_list},
	{"registrant_drop", control_registrant_drop},
	{"host_disconnect", control_host_disconnect},
	{"capture", control_capture},
	{"upgrade", control_upgrade},
	{"group_list", control_group_list},
	{"group_give", control_group_give},
	{0}, /* one for each line */
};

/* ---- life ----------------------------------------------------------------------------------- */

/* Without a service manager the run directory may not exist. */
static int make_directory(const char *path)
{
	_autofree_ char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	return mkdir(dirname(copy), 0750) < 0 && errno != EEXIST ? -errno : 0;
}

/* 0; or -errno, logged with what to do. */
static int say_cannot_listen(const char *path, int r)
{
	const char *hint = "";

	if (r == -EADDRINUSE)
		hint = " (is another rblkd running?); another one needs a --control-socket of its own";
	else if (r == -EACCES || r == -EPERM || r == -EROFS)
		hint = "; name one in a directory of your own: --control-socket PATH, or set RBLK_RUN_DIR";
	else if (r == -ENOENT || r == -ENOTDIR)
		hint = "; make the directory, or name another: --control-socket PATH";
	log_err("cannot listen on control socket %s: %s%s", path, strerror(-r), hint);
	return r;
}

int control_start(struct target *target)
{
	const char *path = target->control_socket ?: target->config->control_socket;
	struct control *control = calloc(1, sizeof(*control));
	char default_path[PATH_MAX];
	int r;

	check(!target->control);
	if (!path) {
		run_dir_socket(default_path, "rblkd.sock");
		path = default_path;
	}
	r = control ? make_directory(path) : -ENOMEM;
	if (r == 0)
		r = rpc_server_new(&target->loop, path, methods, target, &control->server);
	if (r < 0) {
		free(control);
		return say_cannot_listen(path, r);
	}
	control_captures_init(target);
	target->control = control;
	return 0;
}

void control_stop(struct target *target)
{
	if (!target->control)
		return;
	rpc_server_free(target->control->server);
	control_captures_stop(target);
	control_registrant_stop(target);
	free(target->control);
	target->control = NULL;
}
