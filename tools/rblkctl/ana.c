/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl ana: list ANA groups, set the state of one (NVMe base specification, Asymmetric Namespace
 * Access). The state decides which path a host takes; it lasts until rblkd restarts or the
 * configuration sets another.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/rblkctl/rblkctl.h"

/* ---- list ----------------------------------------------------------------------------------- */

static const char *const titles[] = {"~SUBSYSTEM", ">GROUP",	 "PORTAL", "STATE",
				     "CONFIGURED", "NAMESPACES", NULL};

/* "1,2,7"; "-" for none. */
static void format_nsids(struct json_object *nsids, char *text, size_t n)
{
	size_t used = 0;

	snprintf(text, n, "-");
	for (size_t i = 0; i < json_object_array_length(nsids) && used < n; i++) {
		int r = snprintf(text + used, n - used, "%s%s", i ? "," : "",
				 json_object_get_string(json_object_array_get_idx(nsids, i)));

		used += r > 0 ? (size_t)r : 0;
	}
}

/* A row a portal: the state of a group may differ between portals, which is what ANA is for. */
static void add_group(struct table *table, struct json_object *group)
{
	struct json_object *portals = answer_member(group, "portals");
	char nsids[256];

	format_nsids(answer_member(group, "namespaces"), nsids, sizeof(nsids));
	for (size_t i = 0; i < json_object_array_length(portals); i++) {
		struct json_object *portal = json_object_array_get_idx(portals, i);

		table_add(table, answer_string(group, "subsystem"));
		table_addf(table, "%" PRIu64, answer_number(group, "group"));
		table_add(table, answer_string(portal, "portal"));
		table_add(table, answer_string(portal, "state"));
		table_add(table, answer_string(portal, "configured"));
		table_add(table, nsids);
	}
}

static void show_groups(struct json_object *result)
{
	struct json_object *groups = answer_member(result, "groups");
	struct table table;

	table_begin(&table, titles);
	for (size_t i = 0; i < json_object_array_length(groups); i++)
		add_group(&table, json_object_array_get_idx(groups, i));
	table_end(&table);
}

int run_ana_list(int argc, char **argv)
{
	static const struct one_call call = {
		.usage =
			{
				.program = "rblkctl ana list",
				.positional = "[NQN]",
				.summary =
					"List the ANA groups of one subsystem, or of all, with their state on each portal.",
				.max_positional = 1,
			},
		.method = "ana_list",
		.key = "subsystem",
		.show = show_groups,
	};

	return run_one_call(&call, argc, argv);
}

/* ---- set ------------------------------------------------------------------------------------ */

/* Without a portal the state is set through all of them. */
static struct json_object *make_params(char **words, uint64_t group, const char *portal)
{
	struct json_object *params = json_object_new_object();

	json_object_object_add(params, "subsystem", json_object_new_string(words[0]));
	json_object_object_add(params, "group", json_object_new_uint64(group));
	json_object_object_add(params, "state", json_object_new_string(words[2]));
	if (portal)
		json_object_object_add(params, "portal", json_object_new_string(portal));
	return params;
}

/* Hosts were told already. A restart would come as a surprise to an administrator without the last
 * line: the file still has the state of before. */
static void print_result(struct json_object *result)
{
	uint64_t n = answer_number(result, "controllers_told");
	bool has_portal = answer_member(result, "portal");

	printf("%s, group %" PRIu64 ": %s through %s%s, %" PRIu64 " controller%s told\n",
	       answer_string(result, "subsystem"), answer_number(result, "group"),
	       answer_string(result, "state"), has_portal ? "portal " : "all portals",
	       has_portal ? answer_string(result, "portal") : "", n, n == 1 ? "" : "s");
	puts("it lasts until rblkd restarts; ana_groups in the configuration has what stays");
}

/* rblkd checks STATE and knows its names; GROUP is checked here, since JSON has it as a number. */
int run_ana_set(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkctl ana set",
		.positional = "NQN GROUP STATE",
		.summary =
			"Set an ANA group to optimized, non_optimized, inaccessible, persistent_loss or change, until rblkd restarts.",
		.min_positional = 3,
		.max_positional = 3,
	};
	const char *portal = NULL;
	const struct arg more = {"portal", 0,	   ARG_STRING,
				 &portal,  "NAME", "set the state on this portal only"};
	struct json_object *result;
	struct options options;
	uint64_t group;
	int first, r = options_parse_with(&usage, &more, 1, argc, argv, &options, &first);

	if (r >= 0)
		return r;
	if (units_parse_uint(argv[first + 1], &group) < 0 || group > INT64_MAX)
		return fail_with("rblkctl ana set", EXIT_USAGE, NULL,
				 "GROUP must be a number: '%s'", argv[first + 1]);
	r = client_call(&options, "ana_set", make_params(argv + first, group, portal), &result);
	if (r != EXIT_OK)
		return r;
	if (options.output == OUTPUT_JSON)
		output_json(result);
	else
		print_result(result);
	if (options.output != OUTPUT_JSON)
		print_cut_hosts(result);
	json_object_put(result);
	return EXIT_OK;
}
