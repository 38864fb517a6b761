/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl qos: shows the rate limits of namespaces and hosts beside their current rates; sets
 * limits. The rates are the difference of two samples of the counters in rblkd.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "tools/rblkctl/client.h"
#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"

/* ---- list ----------------------------------------------------------------------------------- */

static const char *const titles[] = {"~NAME",	 ">IOPS",  ">LIMIT",  ">READ/S", ">LIMIT",
				     ">WRITE/S", ">LIMIT", "?>BURST", "?>WAIT",	 NULL};

/* Hosts have no subsystem, namespaces no host: a missing key compares equal. */
static bool is_same(struct json_object *a, struct json_object *b)
{
	return !strcmp(answer_string(a, "host"), answer_string(b, "host")) &&
	       !strcmp(answer_string(a, "subsystem"), answer_string(b, "subsystem")) &&
	       answer_number(a, "nsid") == answer_number(b, "nsid");
}

static struct json_object *find_same(struct json_object *list, struct json_object *item)
{
	for (size_t i = 0; i < json_object_array_length(list); i++)
		if (is_same(json_object_array_get_idx(list, i), item))
			return json_object_array_get_idx(list, i);
	return NULL;
}

/* The growth of a counter, a second. */
static uint64_t rate(struct json_object *before, struct json_object *item, const char *key,
		     uint64_t interval_ns)
{
	uint64_t then = answer_number(before, key), now = answer_number(item, key);

	if (!before || now < then || !interval_ns)
		return 0;
	return (uint64_t)((double)(now - then) * NSEC_PER_SEC / (double)interval_ns + 0.5);
}

static void add_limit(struct table *table, const struct options *options, struct json_object *qos,
		      const char *key)
{
	if (!answer_member(qos, key))
		table_add(table, "-");
	else if (!strcmp(key, "iops"))
		table_addf(table, "%" PRIu64, answer_number(qos, key));
	else
		table_add_size(table, options, answer_number(qos, key));
}

/* Each rate stands beside its limit, so a limit that holds a host back is seen at a glance. */
static void add_item(struct table *table, const struct options *options, struct json_object *item,
		     struct json_object *before, uint64_t interval_ns)
{
	struct json_object *qos = answer_member(item, "qos");
	char burst[UNITS_MAX], wait[UNITS_MAX];

	if (answer_member(item, "host"))
		table_add(table, answer_string(item, "host_name"));
	else
		table_addf(table, "%s/%" PRIu64, answer_string(item, "subsystem"),
			   answer_number(item, "nsid"));
	table_addf(table, "%" PRIu64, rate(before, item, "operations", interval_ns));
	add_limit(table, options, qos, "iops");
	table_add_size(table, options, rate(before, item, "read_bytes", interval_ns));
	add_limit(table, options, qos, "read_bandwidth");
	table_add_size(table, options, rate(before, item, "written_bytes", interval_ns));
	add_limit(table, options, qos, "write_bandwidth");
	table_add(table, units_format_duration(burst, answer_number(qos, "burst_ns")));
	if (answer_member(item, "full_queue_wait_ns"))
		table_add(table,
			  units_format_duration(wait, answer_number(item, "full_queue_wait_ns")));
	else
		table_add(table, "-");
}

/* Each item beside its own earlier sample; one that is new has no rate yet. */
static void print_lists(const struct options *options, struct json_object *before,
			struct json_object *after)
{
	static const char *const kinds[] = {"namespaces", "hosts"};
	uint64_t interval_ns = answer_number(after, "time_ns") - answer_number(before, "time_ns");
	struct table table;

	table_begin(&table, titles);
	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		struct json_object *list = answer_member(after, kinds[i]);
		struct json_object *old = answer_member(before, kinds[i]);

		for (size_t k = 0; k < json_object_array_length(list); k++) {
			struct json_object *item = json_object_array_get_idx(list, k);

			add_item(&table, options, item, find_same(old, item), interval_ns);
		}
	}
	table_end(&table);
}

/* The answer has the time of its counters, so the interval is that of rblkd, not of two calls. */
static int ask(const struct options *options, const char *name, struct json_object **ret_answer)
{
	struct json_object *params = json_object_new_object();

	if (name)
		json_object_object_add(params, "name", json_object_new_string(name));
	return client_call(options, "qos_list", params, ret_answer);
}

int run_qos_list(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkctl qos list",
		.positional = "[NQN/NSID|HOST]",
		.summary = "Show rate limits and current rates of a namespace, a host, or all.",
		.max_positional = 1,
	};
	uint64_t interval_ns = NSEC_PER_SEC;
	const struct arg more = {"interval",
				 'i',
				 ARG_DURATION,
				 &interval_ns,
				 "TIME",
				 "how long it looks, by default 1s",
				 .min = 100 * NSEC_PER_MSEC,
				 .max = 3600 * NSEC_PER_SEC};
	struct json_object *before, *after;
	struct options options;
	const char *name;
	int first, r = options_parse_with(&usage, &more, 1, argc, argv, &options, &first);

	if (r >= 0)
		return r;
	name = first < argc ? argv[first] : NULL;
	r = ask(&options, name, &before);
	if (r != EXIT_OK)
		return r;
	clock_sleep_ns(interval_ns);
	r = ask(&options, name, &after);
	if (r != EXIT_OK) {
		json_object_put(before);
		return r;
	}
	if (options.output == OUTPUT_JSON) {
		json_object_object_add(after, "before", json_object_get(before));
		output_json(after);
	} else {
		print_lists(&options, before, after);
	}
	json_object_put(before);
	json_object_put(after);
	return EXIT_OK;
}

/* ---- set ------------------------------------------------------------------------------------ */

/* The command takes effect at once, and lasts until rblkd reads its configuration again. */
void show_qos_set(const struct options *options, struct json_object *result)
{
	static const char *const keys[] = {"read_bandwidth", "write_bandwidth"};
	struct json_object *qos = answer_member(result, "qos");
	char size[UNITS_MAX], burst[UNITS_MAX];

	printf("%s: iops %s", answer_string(result, "name"),
	       answer_member(qos, "iops") ? answer_string(qos, "iops") : "none");
	for (unsigned i = 0; i < ARRAY_LEN(keys); i++)
		printf(", %s %s", keys[i],
		       answer_member(qos, keys[i])
			       ? format_size(options, size, answer_number(qos, keys[i]))
			       : "none");
	printf(", burst %s, until the next apply or start: the file is not changed\n",
	       units_format_duration(burst, answer_number(qos, "burst_ns")));
}
