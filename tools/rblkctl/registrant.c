/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl registrant list, registrant drop: the hosts that have registered a key for reservations.
 * A drop by the name of a subsystem is one for each of its namespaces where the identifier is
 * registered.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/output.h"
#include "tools/rblkctl/client.h"
#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"

enum {
	PAUSE_MS = 50,
	PATIENCE_S = 60, /* a cluster that is away answers late */
};

/* ---- list ----------------------------------------------------------------------------------- */

static const char *const titles[] = {"~SUBSYSTEM", ">NSID",	 "IDENTIFIER", "?KEY",
				     "HOLDS",	   "?CONNECTED", "~HOST",      NULL};

/* A registrant that holds nothing has the reservation of others beside it: "-". */
static void add_row(struct table *table, struct json_object *o)
{
	table_add(table, answer_string(o, "subsystem"));
	table_addf(table, "%" PRIu64, answer_number(o, "nsid"));
	table_add(table, answer_string(o, "hostid"));
	table_add(table, answer_string(o, "key"));
	table_add(table, answer_bool(o, "holder") ? answer_string(o, "reservation") : "-");
	table_add(table, answer_bool(o, "connected") ? "yes" : "no");
	table_add(table, answer_string(o, answer_member(o, "host_name") ? "host_name" : "host"));
}

/* Without a registrant only the titles, as of every list. */
void show_registrants(const struct options *options, struct json_object *result)
{
	struct json_object *registrants = answer_member(result, "registrants");
	struct table table;

	table_begin(&table, titles);
	for (size_t i = 0; i < json_object_array_length(registrants); i++)
		add_row(&table, json_object_array_get_idx(registrants, i));
	table_end(&table);
}

/* ---- drop ----------------------------------------------------------------------------------- */

/* The parameters for one namespace, as rblkd takes them. The caller puts them. */
static struct json_object *wish_of(struct json_object *ns, const char *hostid, bool is_forced)
{
	struct json_object *params = json_object_new_object();

	json_object_object_add(params, "subsystem",
			       json_object_new_string(answer_string(ns, "subsystem")));
	json_object_object_add(params, "nsid", json_object_new_uint64(answer_number(ns, "nsid")));
	json_object_object_add(params, "hostid", json_object_new_string(hostid));
	json_object_object_add(params, "force", json_object_new_boolean(is_forced));
	return params;
}

/* Else it is dropped, or there was none: a failure is an error of the call. */
static bool is_running(struct json_object *result)
{
	return !strcmp(answer_string(result, "state"), "running");
}

/* rblkd answers at once: asks by the id until the drop is over. EXIT_OK with the last answer. */
static int wait_over(const struct options *options, struct json_object **result)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;
	int r = EXIT_OK;

	while (r == EXIT_OK && is_running(*result)) {
		struct json_object *params = json_object_new_object();

		json_object_object_add(params, "id",
				       json_object_new_uint64(answer_number(*result, "id")));
		json_object_put(*result);
		*result = NULL;
		if (clock_ns() > deadline) {
			json_object_put(params);
			return fail_with("rblkctl registrant drop", EXIT_PARTIAL,
					 "it goes on; the log of rblkd will have its outcome",
					 "not over after %d s", PATIENCE_S);
		}
		r = client_call(options, "registrant_drop", params, result);
		if (r == EXIT_OK && is_running(*result))
			clock_sleep_ns(PAUSE_MS * NSEC_PER_MSEC);
	}
	return r;
}

/* Adds the answer to `dropped`, which owns it then, if there was a registrant. Text is printed at
 * once, because a later drop may fail. */
static int drop_one(const struct options *options, struct json_object *params,
		    struct json_object *dropped)
{
	struct json_object *result = NULL;
	int r = client_call(options, "registrant_drop", params, &result);

	if (r == EXIT_OK)
		r = wait_over(options, &result);
	if (r != EXIT_OK)
		return r;
	if (!strcmp(answer_string(result, "state"), "none")) {
		json_object_put(result);
		return EXIT_OK;
	}
	if (options->output != OUTPUT_JSON)
		printf("%s/%" PRIu64 ": dropped %s of host %s\n",
		       answer_string(result, "subsystem"), answer_number(result, "nsid"),
		       answer_string(result, "hostid"), answer_string(result, "host"));
	json_object_array_add(dropped, result);
	return EXIT_OK;
}

static bool is_named(struct json_object *ns, const char *name)
{
	const char *subsystem = answer_string(ns, "subsystem");
	char text[512];

	snprintf(text, sizeof(text), "%s/%" PRIu64, subsystem, answer_number(ns, "nsid"));
	return !strcmp(name, subsystem) || !strcmp(name, text);
}

/* EXIT_OK; EXIT_NOT_FOUND: no such namespace, or none where the identifier is registered; or as
 * rblkd refuses. */
static int drop_all(const struct options *options, struct json_object *namespaces, char **names,
		    bool is_forced, struct json_object *dropped)
{
	int r = EXIT_OK, n_named = 0;

	for (size_t i = 0; r == EXIT_OK && i < json_object_array_length(namespaces); i++) {
		struct json_object *ns = json_object_array_get_idx(namespaces, i);

		if (!is_named(ns, names[0]))
			continue;
		n_named++;
		r = drop_one(options, wish_of(ns, names[1], is_forced), dropped);
	}
	if (r == EXIT_OK && !n_named)
		return fail_with("rblkctl registrant drop", EXIT_NOT_FOUND,
				 "rblkctl list namespaces", "there is no namespace '%s'", names[0]);
	if (r == EXIT_OK && !json_object_array_length(dropped))
		return fail_with("rblkctl registrant drop", EXIT_NOT_FOUND,
				 "rblkctl registrant list",
				 "no host is registered there with identifier '%s'", names[1]);
	return r;
}

/* One object, with an answer for each namespace. */
static void print_dropped(struct json_object *dropped)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "schema", json_object_new_int(1));
	json_object_object_add(o, "dropped", json_object_get(dropped));
	output_json(o);
	json_object_put(o);
}

/* A name may stand for several namespaces. rblkd finds out which of them have such a registrant: a
 * drop reads a state that other rblkd share. */
int run_registrant_drop(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkctl registrant drop",
		.positional = "NQN[/NSID] IDENTIFIER",
		.summary =
			"End the registration of a host identifier at a namespace, or at all of a subsystem.",
		.min_positional = 2,
		.max_positional = 2,
	};
	bool is_forced = false;
	const struct arg more = {"force",    0,	   ARG_FLAG,
				 &is_forced, NULL, "also if a host with it is connected"};
	struct json_object *params, *result, *dropped;
	struct options options;
	int first, r = options_parse_with(&usage, &more, 1, argc, argv, &options, &first);

	if (r >= 0)
		return r;
	params = json_object_new_object();
	json_object_object_add(params, "what", json_object_new_string("namespaces"));
	r = client_call(&options, "list", params, &result);
	if (r != EXIT_OK)
		return r;
	dropped = json_object_new_array();
	r = drop_all(&options, answer_member(result, "namespaces"), &argv[first], is_forced,
		     dropped);
	if (r == EXIT_OK && options.output == OUTPUT_JSON)
		print_dropped(dropped);
	json_object_put(dropped);
	json_object_put(result);
	return r;
}
