/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl group list, group give: groups of namespaces that several rblkd can serve, and one does:
 * the one that has the locks of their stores (owner: lock in the configuration).
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
	PAUSE_MS = 20,
	PROGRESS_S = 3,
	PATIENCE_S = 120, /* a disk may take long over its last sync */
};

static struct {
	bool is_quiet;
} args;

/* ---- list ----------------------------------------------------------------------------------- */

/* The reason comes last: it names a path, and may be long. */
static const char *const titles[] = {"~SUBSYSTEM", ">GROUP", "OWNER",	">SINCE",
				     ">TAKEN",	   ">GIVEN", "~REASON", NULL};

/* A row a group; nothing but the titles where no group has an owner by lock. */
void show_groups(const struct options *options, struct json_object *result)
{
	struct json_object *groups = answer_member(result, "groups");
	char since[UNITS_MAX];
	struct table table;

	table_begin(&table, titles);
	for (size_t i = 0; i < json_object_array_length(groups); i++) {
		struct json_object *o = json_object_array_get_idx(groups, i);

		table_add(&table, answer_string(o, "subsystem"));
		table_addf(&table, "%" PRIu64, answer_number(o, "group"));
		table_add(&table, answer_string(o, "state"));
		table_add(&table,
			  units_format_duration(since, answer_number(o, "since_s") * NSEC_PER_SEC));
		table_addf(&table, "%" PRIu64, answer_number(o, "times_taken"));
		table_addf(&table, "%" PRIu64, answer_number(o, "times_given"));
		table_add(&table, answer_member(o, "reason") ? answer_string(o, "reason") : "-");
	}
	table_end(&table);
}

/* ---- give ----------------------------------------------------------------------------------- */

/* A group that is given away, as the caller knows it. */
struct give {
	const struct options *options;
	const char *subnqn;
	uint64_t group;
	uint64_t times_given; /* when it began: "standing by" may otherwise be of an earlier time */
};

/* The group in an answer of group_list, which the caller puts; NULL: an apply has removed it. */
static struct json_object *find(const struct give *give, struct json_object *list)
{
	struct json_object *groups = answer_member(list, "groups");

	for (size_t i = 0; groups && i < json_object_array_length(groups); i++) {
		struct json_object *o = json_object_array_get_idx(groups, i);

		if (answer_number(o, "group") == give->group &&
		    !strcmp(answer_string(o, "subsystem"), give->subnqn))
			return json_object_get(o);
	}
	return NULL;
}

/* It stands by and has found the locks taken; or it is the owner again. Until it has tried once
 * more, it is not known that another process has the stores. */
static bool is_over(const struct give *give, struct json_object *o)
{
	const char *state = answer_string(o, "state");
	bool stands_by = !strcmp(state, "standing by") &&
			 answer_number(o, "times_given") > give->times_given;

	return !strcmp(state, "owner") || (stands_by && answer_member(o, "reason"));
}

/* The state that a person waits for: it changes when the last command has ended, or a sync. */
static void say_progress(const struct give *give, struct json_object *o, uint64_t *said_ns)
{
	if (args.is_quiet || give->options->output == OUTPUT_JSON ||
	    clock_ns() - *said_ns < PROGRESS_S * NSEC_PER_SEC)
		return;
	fprintf(stderr, "rblkctl group give: %s...\n", answer_string(o, "state"));
	*said_ns = clock_ns();
}

/* EXIT_OK with the group when it is over, which the caller puts. */
static int wait_over(const struct give *give, struct json_object **ret_group)
{
	uint64_t begin_ns = clock_ns(), said_ns = begin_ns;

	for (;;) {
		struct json_object *list, *o;
		int r = client_call(give->options, "group_list", NULL, &list);

		if (r != EXIT_OK)
			return r;
		o = find(give, list);
		json_object_put(list);
		if (!o)
			return fail_with("rblkctl group give", EXIT_NOT_FOUND, NULL,
					 "the group is not in the configuration any more");
		*ret_group = o;
		if (is_over(give, o))
			return EXIT_OK;
		say_progress(give, o, &said_ns);
		json_object_put(o);
		if (clock_ns() - begin_ns > PATIENCE_S * NSEC_PER_SEC)
			return fail_with("rblkctl group give", EXIT_PARTIAL,
					 "rblkctl group list shows how it goes on",
					 "not over after %d s", PATIENCE_S);
		clock_sleep_ns(PAUSE_MS * NSEC_PER_MSEC);
	}
}

/* A group that came back is a failure, although hosts have their I/O: the caller wants to stop this
 * rblkd, or its disk, next. */
static int report(const struct give *give, struct json_object *o)
{
	bool is_kept = !strcmp(answer_string(o, "state"), "owner");
	const char *why = answer_member(o, "reason") ? answer_string(o, "reason")
						     : "no other rblkd has taken it";

	if (give->options->output == OUTPUT_JSON)
		output_json(o);
	else if (!is_kept && !args.is_quiet)
		printf("%s, group %" PRIu64 ": given away, another process has its stores\n",
		       give->subnqn, give->group);
	if (!is_kept)
		return EXIT_OK;
	return fail_with("rblkctl group give", EXIT_FAILED,
			 "rblkctl group list at the others shows whether they stand by",
			 "this rblkd is still, or again, the owner: %s", why);
}

/* The answer to the call has the counts from before, by which its end is recognized. */
static int give_away(struct give *give)
{
	struct json_object *params = json_object_new_object(), *result;
	int r;

	json_object_object_add(params, "subsystem", json_object_new_string(give->subnqn));
	json_object_object_add(params, "group", json_object_new_uint64(give->group));
	r = client_call(give->options, "group_give", params, &result);
	if (r != EXIT_OK)
		return r;
	give->times_given = answer_number(result, "times_given");
	json_object_put(result);
	r = wait_over(give, &result);
	if (r != EXIT_OK)
		return r;
	r = report(give, result);
	json_object_put(result);
	return r;
}

int run_group_give(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkctl group give",
		.positional = "NQN GROUP",
		.summary =
			"Let another rblkd that stands by become the owner of a group, and wait until one is.",
		.min_positional = 2,
		.max_positional = 2,
	};
	const struct arg quiet = {"quiet",	  'q',	ARG_FLAG,
				  &args.is_quiet, NULL, "print errors only"};
	struct options options;
	struct give give = {.options = &options};
	int first, r = options_parse_with(&usage, &quiet, 1, argc, argv, &options, &first);

	if (r >= 0)
		return r;
	give.subnqn = argv[first];
	if (units_parse_uint(argv[first + 1], &give.group) < 0 || give.group > UINT32_MAX)
		return fail_with("rblkctl group give", EXIT_USAGE, NULL,
				 "GROUP must be a number: '%s'", argv[first + 1]);
	return give_away(&give);
}
