/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl list: the exported objects and the hosts that use them. Without an argument the
 * subsystems.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/conf_guess.h"
#include "base/output.h"
#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"

/* "left,right"; "-" for an empty list. */
static void add_list(struct table *table, struct json_object *list)
{
	char text[256] = "-";
	size_t n = 0;

	for (size_t i = 0; i < json_object_array_length(list) && n < sizeof(text); i++) {
		int r = snprintf(text + n, sizeof(text) - n, "%s%s", i ? "," : "",
				 json_object_get_string(json_object_array_get_idx(list, i)));

		n += r > 0 ? (size_t)r : 0;
	}
	table_add(table, text);
}

static void add_number(struct table *table, struct json_object *o, const char *key)
{
	table_addf(table, "%" PRIu64, answer_number(o, key));
}

static const char *const subsystem_titles[] = {"~SUBSYSTEM",  "?SERIAL",      "PORTALS", "HOSTS",
					       ">NAMESPACES", ">CONTROLLERS", NULL};

/* The hosts are a count: with hundreds of them a row would be no row. */
static void add_subsystem(struct table *table, const struct options *options, struct json_object *o)
{
	struct json_object *hosts = answer_member(o, "allow_hosts");

	table_add(table, answer_string(o, "nqn"));
	table_add(table, answer_string(o, "serial"));
	add_list(table, answer_member(o, "portals"));
	if (answer_bool(o, "allow_any_host"))
		table_add(table, "any");
	else
		table_addf(table, "%zu allowed", json_object_array_length(hosts));
	add_number(table, o, "namespaces");
	add_number(table, o, "controllers");
}

static const char *const namespace_titles[] = {"~SUBSYSTEM", ">NSID", ">SIZE", "?>BLOCK", "KIND",
					       "ACCESS",     "STATE", "~PATH", NULL};

static void add_namespace(struct table *table, const struct options *options, struct json_object *o)
{
	table_add(table, answer_string(o, "subsystem"));
	add_number(table, o, "nsid");
	table_add_size(table, options, answer_number(o, "size_bytes"));
	add_number(table, o, "block_size");
	table_add(table, answer_string(o, "kind"));
	table_add(table, answer_bool(o, "read_only") ? "read" : "write");
	table_add(table, answer_string(o, "state"));
	table_add(table, answer_member(o, "path") ? answer_string(o, "path") : "");
}

static const char *const host_titles[] = {"~HOST", ">CONTROLLERS", ">QPAIRS",
					  "~NQN",  "?IDENTIFIER",  NULL};

/* By which it is connected; else the one that the configuration binds to it. */
static void add_identifier(struct table *table, struct json_object *o)
{
	struct json_object *ids = answer_member(o, "hostids");

	if (json_object_array_length(ids))
		add_list(table, ids);
	else
		table_add(table,
			  answer_member(o, "bound_hostid") ? answer_string(o, "bound_hostid") : "");
}

static void add_host(struct table *table, const struct options *options, struct json_object *o)
{
	table_add(table, answer_string(o, "name"));
	add_number(table, o, "controllers");
	add_number(table, o, "queue_pairs");
	table_add(table, answer_string(o, "nqn"));
	add_identifier(table, o);
}

static const char *const connection_titles[] = {"ADDRESS",  "?PORTAL", ">CNTLID",    ">QUEUE",
						"?>WORKER", "STATE",   "?>AGE",	     ">READ",
						">WRITTEN", "~HOST",   "~SUBSYSTEM", NULL};

/* The admin queue has number 0; its name says more. */
static void add_connection(struct table *table, const struct options *options,
			   struct json_object *o)
{
	char age[UNITS_MAX];

	table_add(table, answer_string(o, "address"));
	table_add(table, answer_string(o, "portal"));
	table_add(table, answer_string(o, "controller"));
	if (answer_number(o, "queue"))
		add_number(table, o, "queue");
	else
		table_add(table, "admin");
	add_number(table, o, "worker");
	table_add(table, answer_string(o, "state"));
	table_add(table, units_format_duration(age, answer_number(o, "age_s") * NSEC_PER_SEC));
	table_add_size(table, options, answer_number(o, "read_bytes"));
	table_add_size(table, options, answer_number(o, "written_bytes"));
	table_add(table, answer_string(o, answer_member(o, "host_name") ? "host_name" : "host"));
	table_add(table, answer_string(o, "subsystem"));
}

static const char *const portal_titles[] = {"PORTAL",  "ADDRESS",   "RDMA",	"STATE",
					    ">QPAIRS", ">ACCEPTED", ">REFUSED", NULL};

static void add_portal(struct table *table, const struct options *options, struct json_object *o)
{
	table_add(table, answer_string(o, "name"));
	table_add(table, answer_string(o, "address"));
	table_add(table, answer_string(o, "device"));
	table_add(table, answer_string(o, "state"));
	add_number(table, o, "queue_pairs");
	add_number(table, o, "accepted");
	add_number(table, o, "refused");
}

/* A kind is a row: its name in the request and the answer, its titles, and how to fill a row. */
static const struct kind {
	const char *name;
	const char *const *titles;
	void (*add)(struct table *table, const struct options *options, struct json_object *o);
} kinds[] = {
	{"subsystems", subsystem_titles, add_subsystem},
	{"namespaces", namespace_titles, add_namespace},
	{"hosts", host_titles, add_host},
	{"connections", connection_titles, add_connection},
	{"portals", portal_titles, add_portal},
};

/* Without a kind the first one. rblkd would refuse an unknown one, too, but guesses nothing. */
int check_list(struct json_object *params)
{
	const char *names[ARRAY_LEN(kinds) + 1] = {NULL}, *name = kinds[0].name, *guess;

	if (answer_member(params, "what"))
		name = answer_string(params, "what");
	else
		json_object_object_add(params, "what", json_object_new_string(name));
	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		if (!strcmp(kinds[i].name, name))
			return EXIT_OK;
		names[i] = kinds[i].name;
	}
	guess = conf_did_you_mean(name, names);
	return fail_with("rblkctl list", EXIT_USAGE, NULL, "there is no list of '%s'%s%s%s", name,
			 guess ? " (did you mean '" : "", guess ? guess : "", guess ? "'?)" : "");
}

/* The answer has the list under the name of its kind. */
void show_list(const struct options *options, struct json_object *result)
{
	const struct kind *kind = kinds;
	struct json_object *items;
	struct table table;

	while (!(items = answer_member(result, kind->name)) && kind < &kinds[ARRAY_LEN(kinds) - 1])
		kind++;
	table_begin(&table, kind->titles);
	for (size_t i = 0; items && i < json_object_array_length(items); i++)
		kind->add(&table, options, json_object_array_get_idx(items, i));
	table_end(&table);
}
