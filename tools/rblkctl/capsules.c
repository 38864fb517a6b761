/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl capsules: the last commands that arrived on each queue, and their responses. To find out
 * which command of a host has failed, and why. rblkd keeps the 64 bytes of a command, none of its
 * data.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"

static const char *const titles[] = {"QUEUE",	"~HOST",  ">AGE",    "^COMMAND", "?>CID",
				     "?>NSID",	">LBA",	  ">BLOCKS", "?SGL",	 "?>LENGTH",
				     "^STATUS", "?>TOOK", NULL};

/* A command that has no such field gets a dash: 0 would be a value. */
static void add_number(struct table *table, struct json_object *o, const char *key)
{
	if (answer_member(o, key))
		table_addf(table, "%" PRIu64, answer_number(o, key));
	else
		table_add(table, "-");
}

static void add_time(struct table *table, struct json_object *o, const char *key)
{
	char text[UNITS_MAX];

	table_add(table,
		  answer_member(o, key) ? units_format_duration(text, answer_number(o, key)) : "-");
}

/* A queue before its Connect has neither controller nor host, only an address: it is of interest,
 * too, because a host that fails to connect has no other trace. */
static void add_capsule(struct table *table, const struct options *options,
			struct json_object *queue, struct json_object *capsule)
{
	table_addf(table, "%s/%" PRIu64,
		   answer_member(queue, "controller") ? answer_string(queue, "controller") : "-",
		   answer_number(queue, "queue"));
	table_add(table, answer_member(queue, "host_name") ? answer_string(queue, "host_name")
			 : answer_member(queue, "host")	   ? answer_string(queue, "host")
							   : answer_string(queue, "address"));
	add_time(table, capsule, "age_ns");
	table_add(table, answer_string(capsule, "command"));
	add_number(table, capsule, "cid");
	add_number(table, capsule, "nsid");
	add_number(table, capsule, "slba");
	add_number(table, capsule, "blocks");
	table_add(table, answer_string(capsule, "sgl"));
	table_add_size(table, options, answer_number(capsule, "length"));
	table_add(table, answer_member(capsule, "status_name")
				 ? answer_string(capsule, "status_name")
				 : "not answered");
	add_time(table, capsule, "took_ns");
}

/* Queue by queue: a host that has trouble on one of them is seen without sorting. */
void show_capsules(const struct options *options, struct json_object *result)
{
	struct json_object *queues = answer_member(result, "queues");
	struct table table;

	table_begin(&table, titles);
	for (size_t i = 0; i < json_object_array_length(queues); i++) {
		struct json_object *queue = json_object_array_get_idx(queues, i);
		struct json_object *list = answer_member(queue, "capsules");

		for (size_t k = 0; k < json_object_array_length(list); k++)
			add_capsule(&table, options, queue, json_object_array_get_idx(list, k));
	}
	table_end(&table);
}
