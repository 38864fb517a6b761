/* SPDX-License-Identifier: BSD-3-Clause */
/* host_disconnect: ends the associations of a host at once. The host may make new ones as long as
 * the configuration allows it. Control thread. */
#include <string.h>

#include "base/json.h"
#include "base/rpc_request.h"
#include "target/association/controller.h"
#include "target/operations/control/host.h"
#include "target/operations/control/list.h"

struct ended {
	unsigned n_controllers, n_queues;
};

static struct ended disconnect(struct target *target, const char *nqn)
{
	struct ended ended = {0};

	list_for_each_safe (node, &target->controllers) {
		struct controller *c = list_entry(node, struct controller, node);

		if (strcmp(c->hostnqn, nqn) != 0 || controller_state(c) == CONTROLLER_DYING)
			continue;
		ended.n_controllers++;
		ended.n_queues += controller_n_queues(c);
		controller_kill(c, "an administrator disconnected it");
	}
	return ended;
}

struct json_object *control_host_disconnect(void *context, struct json_object *params,
					    struct error *error)
{
	struct target *target = context;
	struct json_object *value = NULL, *o;
	const char *name, *nqn;
	struct ended ended;

	json_object_object_get_ex(params, "host", &value);
	name = json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
	if (!*name)
		return rpc_refuse(error, EXIT_USAGE, "rblkctl list hosts",
				  "name the host: by its NQN, or as in the configuration");
	nqn = config_host_nqn(target->config, name);
	ended = disconnect(target, nqn);
	if (!ended.n_controllers && !config_find_host(target->config, nqn))
		return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list hosts",
				  "there is no host '%.240s'", name);
	o = json_object_new_object();
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_string(o, "host", nqn);
	control_add_string(o, "host_name", control_host_name(target, nqn));
	control_add_number(o, "controllers", ended.n_controllers);
	control_add_number(o, "queue_pairs", ended.n_queues);
	return o;
}
