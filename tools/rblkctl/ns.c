/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl ns resize: makes rblkd read the size of a file or device again; with a size, grow the
 * file first.
 */
#include <stdio.h>
#include <string.h>

#include "tools/rblkctl/rblkctl.h"

/* What rblkd would refuse as well, but with a message about JSON. */
static int fail_usage(const char *what, const char *value)
{
	return fail_with("rblkctl ns resize", EXIT_USAGE, NULL, "%s: '%s'", what, value);
}

/* Both sizes: "as before" means that the file or device has not grown yet. */
static void print_result(const struct options *options, struct json_object *result)
{
	uint64_t old_size = answer_number(result, "old_size_bytes");
	uint64_t size = answer_number(result, "size_bytes");
	char was[UNITS_MAX], is[UNITS_MAX];

	printf("%s/%u: %s", answer_string(result, "subsystem"),
	       (unsigned)answer_number(result, "nsid"), format_size(options, was, old_size));
	if (size == old_size)
		puts(", as before");
	else
		printf(" -> %s\n", format_size(options, is, size));
}

/* rblkd refuses to shrink without --force: hosts would lose what lies behind the new end. */
int run_ns_resize(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkctl ns resize",
		.positional = "NQN NSID [SIZE]",
		.summary =
			"Announce the new size of a file or device to hosts; with SIZE, first grow the file to it.",
		.min_positional = 2,
		.max_positional = 3,
	};
	bool is_forced = false;
	const struct arg more = {"force",    0,	   ARG_FLAG,
				 &is_forced, NULL, "also if it has become smaller"};
	struct json_object *params, *result;
	struct options options;
	uint64_t nsid, size = 0;
	int first, r = options_parse_with(&usage, &more, 1, argc, argv, &options, &first);

	if (r >= 0)
		return r;
	if (units_parse_uint(argv[first + 1], &nsid) < 0)
		return fail_usage("NSID must be a number", argv[first + 1]);
	if (argc - first > 2 &&
	    (units_parse_size(argv[first + 2], &size) < 0 || !size || size > INT64_MAX))
		return fail_usage("SIZE must be a size such as 100GiB", argv[first + 2]);
	params = json_object_new_object();
	json_object_object_add(params, "subsystem", json_object_new_string(argv[first]));
	json_object_object_add(params, "nsid", json_object_new_uint64(nsid));
	if (size)
		json_object_object_add(params, "size_bytes", json_object_new_uint64(size));
	json_object_object_add(params, "force", json_object_new_boolean(is_forced));
	r = client_call(&options, "ns_resize", params, &result);
	if (r != EXIT_OK)
		return r;
	if (options.output == OUTPUT_JSON)
		output_json(result);
	else
		print_result(&options, result);
	json_object_put(result);
	return EXIT_OK;
}
