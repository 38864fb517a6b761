/* SPDX-License-Identifier: BSD-3-Clause */
/* The status of a volume as JSON, with the keys of `rblk status`. Any thread; control collects. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "initiator/control/volume.h"
#include "library/handle.h"
#include "library/options.h"
#include "library/process.h"

struct collection {
	struct rblk_volume *volume;
	struct volume_status status;
	unsigned n_queues;
};

static void collect(void *arg)
{
	struct collection *c = arg;

	volume_get_status(c->volume->volume, &c->status);
	list_for_each (node, &c->volume->queues)
		c->n_queues++;
}

static void add_string(struct json_object *o, const char *key, const char *value)
{
	if (value && *value)
		json_add(o, key, json_object_new_string(value));
	else
		json_add_null(o, key);
}

static void add_number(struct json_object *o, const char *key, uint64_t value)
{
	json_add(o, key, json_object_new_uint64(value));
}

static void add_error(struct json_object *o, const struct error *error)
{
	char text[sizeof(error->message)];
	struct json_object *e;

	if (!*error->message) {
		json_add_null(o, "last_error");
		return;
	}
	e = json_object_new_object();
	options_to_public(text, sizeof(text), error->message);
	add_string(e, "message", text);
	options_to_public(text, sizeof(text), error->hint);
	add_string(e, "hint", text);
	add_number(e, "age_s", error->at_ns ? (clock_ns() - error->at_ns) / NSEC_PER_SEC : 0);
	json_add(o, "last_error", e);
}

static struct json_object *make_path(const struct volume_path_status *path)
{
	struct json_object *o = json_object_new_object();
	char address[ADDR_STRING_MAX];

	add_string(o, "address", addr_format(address, &path->address));
	add_string(o, "state", volume_path_state_name(path->state));
	json_add(o, "found", json_object_new_boolean(path->is_found));
	json_add(o, "used", json_object_new_boolean(path->is_used));
	add_string(o, "ana_state", path->ana_state);
	add_string(o, "rdma_device", path->device);
	add_number(o, "queues_live", path->n_queues_live);
	add_number(o, "in_flight", path->n_in_flight);
	add_number(o, "commands", path->n_commands);
	add_number(o, "losses", path->n_losses);
	add_error(o, &path->last_error);
	return o;
}

static void add_paths(struct json_object *o, const struct volume_status *status)
{
	struct json_object *array = json_object_new_array();

	add_number(o, "paths_live", status->n_paths_live);
	add_number(o, "paths", status->n_paths);
	for (unsigned i = 0; i < status->n_paths; i++)
		json_append(array, make_path(&status->paths[i]));
	json_add(o, "path_list", array);
}

static struct json_object *make_service(const struct volume_service_status *service)
{
	struct json_object *o = json_object_new_object();
	char address[ADDR_STRING_MAX];

	add_string(o, "address", addr_format(address, &service->address));
	add_string(o, "state", service->state);
	json_add(o, "referral", json_object_new_boolean(service->is_referral));
	if (service->has_log) {
		add_number(o, "generation", service->generation);
		add_number(o, "changed_s", (clock_ns() - service->changed_ns) / NSEC_PER_SEC);
	} else {
		json_add_null(o, "generation");
		json_add_null(o, "changed_s");
	}
	add_number(o, "portals", service->n_portals);
	add_error(o, &service->last_error);
	return o;
}

static void add_discovery(struct json_object *o, const struct volume_status *status)
{
	struct json_object *array = json_object_new_array();

	for (unsigned i = 0; i < status->n_services; i++)
		json_append(array, make_service(&status->services[i]));
	json_add(o, "discovery", array);
}

static struct json_object *make(const struct collection *c)
{
	const struct volume_status *s = &c->status;
	struct json_object *o = json_object_new_object();

	add_number(o, "schema", 1);
	add_string(o, "volume", c->volume->name);
	add_string(o, "state", volume_state_name(s->state));
	add_number(o, "state_s", (clock_ns() - s->state_since_ns) / NSEC_PER_SEC);
	add_string(o, "device", s->device);
	add_string(o, "path_state", s->ana_state);
	add_paths(o, s);
	add_discovery(o, s);
	add_number(o, "size_bytes", atomic_load(&c->volume->size_bytes));
	add_number(o, "queues", c->n_queues);
	add_number(o, "queues_live", s->n_queues_live);
	add_number(o, "in_flight", s->n_in_flight);
	add_number(o, "held", s->n_held);
	add_number(o, "reconnects", s->n_reconnects);
	add_number(o, "errors", s->io_errors.n);
	if (s->gives_up_in_ns == UINT64_MAX)
		json_add_null(o, "gives_up_in_s");
	else
		add_number(o, "gives_up_in_s", s->gives_up_in_ns / NSEC_PER_SEC);
	add_error(o, &s->last_error);
	return o;
}

int rblk_get_status(struct rblk_volume *volume, char **ret_json)
{
	struct collection *c;
	struct json_object *o;
	const char *text;

	*ret_json = NULL;
	if (process_is_child())
		return -ECHILD;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->volume = volume;
	process_call(collect, c);
	json_is_whole();
	o = make(c);
	text = o && json_is_whole() ? json_object_to_json_string(o) : NULL;
	if (json_is_text_of(text, o))
		*ret_json = strdup(text);
	json_object_put(o);
	free(c);
	return *ret_json ? 0 : -ENOMEM;
}
