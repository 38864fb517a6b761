/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl ana: list ANA groups, set the state of one (NVMe base specification, Asymmetric Namespace
 * Access). The state decides which path a host takes; it lasts until rblkd restarts or the
 * configuration sets another.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/rblkctl/client.h"
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

void show_ana(const struct options *options, struct json_object *result)
{
	struct json_object *groups = answer_member(result, "groups");
	struct table table;

	table_begin(&table, titles);
	for (size_t i = 0; i < json_object_array_length(groups); i++)
		add_group(&table, json_object_array_get_idx(groups, i));
	table_end(&table);
}

/* ---- set ------------------------------------------------------------------------------------ */

/* Hosts were told already. A restart would come as a surprise to an administrator without the last
 * line: the file still has the state of before. */
void show_ana_set(const struct options *options, struct json_object *result)
{
	uint64_t n = answer_number(result, "controllers_told");
	bool has_portal = answer_member(result, "portal");

	printf("%s, group %" PRIu64 ": %s through %s%s, %" PRIu64 " controller%s told\n",
	       answer_string(result, "subsystem"), answer_number(result, "group"),
	       answer_string(result, "state"), has_portal ? "portal " : "all portals",
	       has_portal ? answer_string(result, "portal") : "", n, n == 1 ? "" : "s");
	puts("it lasts until rblkd restarts; ana_groups in the configuration has what stays");
	print_cut_hosts(result);
}
