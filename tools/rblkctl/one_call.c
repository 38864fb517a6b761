/* SPDX-License-Identifier: BSD-3-Clause */
/* Subcommands that are one call of rblkd with at most one argument, and whose answer is shown. */
#include "tools/rblkctl/rblkctl.h"

int run_one_call(const struct one_call *call, int argc, char **argv)
{
	struct json_object *params, *result;
	struct options options;
	int first, r = options_parse(&call->usage, argc, argv, &options, &first);

	if (r >= 0)
		return r;
	params = json_object_new_object();
	if (first < argc)
		json_object_object_add(params, call->key, json_object_new_string(argv[first]));
	r = client_call(&options, call->method, params, &result);
	if (r != EXIT_OK)
		return r;
	if (options.output == OUTPUT_JSON)
		output_json(result);
	else
		call->show(result);
	json_object_put(result);
	return EXIT_OK;
}
