/* SPDX-License-Identifier: BSD-3-Clause */
/* Subcommands that are one call of rblkd: their rows say how words and options of the command line
 * become parameters, and what shows the answer. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/output.h"
#include "tools/rblkctl/client.h"
#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"

/* The value of an option, by the type of its row. */
union given {
	bool flag;
	uint64_t number;
	const char *text;
};

/* Keys and values of the pairs are checked by rblkd, by the same table as the configuration. */
static int add_pairs(const char *program, const struct param *param, char **words, int n,
		     struct json_object *params)
{
	struct json_object *pairs = json_object_new_object();

	json_object_object_add(params, param->key, pairs);
	for (int i = 0; i < n; i++) {
		char *value = strchr(words[i], '=');

		if (!value)
			return fail_with(program, EXIT_USAGE, "such as iops=1000",
					 "'%s' is not KEY=VALUE", words[i]);
		*value++ = '\0';
		json_object_object_add(pairs, words[i], json_object_new_string(value));
	}
	return EXIT_OK;
}

static struct json_object *list_of(char **words, int n)
{
	struct json_object *list = json_object_new_array();

	for (int i = 0; i < n; i++)
		json_object_array_add(list, json_object_new_string(words[i]));
	return list;
}

/* Numbers are checked here, since JSON has them as such, and other texts by rblkd. */
static int add_param(const char *program, const struct param *param, char **words, int n,
		     struct json_object *params)
{
	bool is_size = param->kind == PARAM_SIZE;
	uint64_t number;

	if (param->kind == PARAM_PAIRS)
		return add_pairs(program, param, words, n, params);
	if (param->kind == PARAM_TEXTS) {
		json_object_object_add(params, param->key, list_of(words, n));
		return EXIT_OK;
	}
	if (!n)
		return EXIT_OK;
	if (param->kind == PARAM_TEXT) {
		json_object_object_add(params, param->key, json_object_new_string(words[0]));
		return EXIT_OK;
	}
	if ((is_size ? units_parse_size : units_parse_uint)(words[0], &number) < 0 ||
	    number > INT64_MAX || (is_size && !number))
		return fail_with(program, EXIT_USAGE, NULL, "%s must be a %s: '%s'", param->word,
				 is_size ? "size such as 100GiB" : "number", words[0]);
	json_object_object_add(params, param->key, json_object_new_uint64(number));
	return EXIT_OK;
}

/* An option that is not given has no parameter, unless it is a flag. */
static void add_options(const struct command *command, const union given *given,
			struct json_object *params)
{
	for (unsigned i = 0; command->options[i].name; i++) {
		const struct arg *arg = &command->options[i];
		struct json_object *value = NULL;

		if (arg->type == ARG_FLAG)
			value = json_object_new_boolean(given[i].flag);
		else if (arg->type == ARG_UINT && given[i].number)
			value = json_object_new_uint64(given[i].number);
		else if (arg->type == ARG_STRING && given[i].text)
			value = json_object_new_string(given[i].text);
		if (value)
			json_object_object_add(params, arg->name, value);
	}
}

/* EXIT_OK, or the mistake is printed. */
static int make_params(const char *program, const struct command *command, char **words, int n,
		       struct json_object *params)
{
	int r = EXIT_OK;

	for (const struct param *p = command->params; p->key && r == EXIT_OK; p++) {
		r = add_param(program, p, words, n, params);
		words += n > 0;
		n -= n > 0;
	}
	return r == EXIT_OK && command->accept ? command->accept(params) : r;
}

/* "NQN NSID [SIZE]", and how many words that are. */
static void describe(const struct command *command, char *text, size_t n_text,
		     struct args_usage *usage)
{
	size_t at = 0;

	text[0] = '\0';
	for (const struct param *p = command->params; p->key; p++) {
		at += (size_t)snprintf(text + at, n_text - at, "%s%s%s%s", at ? " " : "",
				       p->is_optional ? "[" : "", p->word,
				       p->is_optional ? "]" : "");
		check(at < n_text);
		usage->min_positional += !p->is_optional;
		usage->max_positional += p->n_max ?: 1;
	}
	usage->positional = text;
}

static int call_and_show(const struct command *command, const struct options *options,
			 struct json_object *params)
{
	struct json_object *result;
	int r = client_call(options, command->method, params, &result);

	if (r != EXIT_OK)
		return r;
	if (options->output == OUTPUT_JSON)
		output_json(result);
	else
		command->show(options, result);
	r = command->code ? command->code(result) : EXIT_OK;
	json_object_put(result);
	return r;
}

int call_run(const void *row, int argc, char **argv)
{
	const struct command *command = row;
	char program[48], positional[80];
	struct args_usage usage = {.program = program, .summary = command->summary};
	union given given[ARRAY_LEN(command->options)] = {0};
	struct arg more[ARRAY_LEN(command->options)];
	struct json_object *params;
	struct options options;
	unsigned n = 0;
	int first, r;

	snprintf(program, sizeof(program), "rblkctl %s", command->name);
	describe(command, positional, sizeof(positional), &usage);
	for (; command->options[n].name; n++) {
		more[n] = command->options[n];
		more[n].value = &given[n];
	}
	r = options_parse_with(&usage, more, n, argc, argv, &options, &first);
	if (r >= 0)
		return r;
	params = json_object_new_object();
	add_options(command, given, params);
	r = make_params(program, command, argv + first, argc - first, params);
	if (r == EXIT_OK)
		return call_and_show(command, &options, params);
	json_object_put(params);
	return r;
}
