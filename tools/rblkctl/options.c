/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/run_dir.h"
#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"

#define SYSTEM_SOCKET RUN_DIR_SYSTEM "/rblkd.sock"

enum {
	OPTIONS_COMMON = 3,
	OPTIONS_MAX = 12,
};

/* The rblkd of this user; else the system's, which may refuse the call (EXIT_DENIED). */
static const char *default_socket(void)
{
	static char path[PATH_MAX];

	run_dir_socket(path, "rblkd.sock");
	if (access(path, F_OK) < 0 && !access(SYSTEM_SOCKET, F_OK))
		return SYSTEM_SOCKET;
	return path;
}

/* The common options come first, so --help of every subcommand begins alike. */
int options_parse_with(const struct args_usage *usage, const struct arg *more, unsigned n_more,
		       int argc, char **argv, struct options *ret_options, int *ret_positional)
{
	const char *socket = getenv("RBLK_CONTROL_SOCKET");
	struct arg table[OPTIONS_MAX] = {
		{"socket", 's', ARG_STRING, &ret_options->socket, "PATH",
		 "control socket of rblkd; else $RBLK_CONTROL_SOCKET, else rblkd.sock in the run directory"},
		{"output", 'o', ARG_CHOICE, &ret_options->output, OUTPUT_CHOICES, OUTPUT_HELP,
		 .choices = output_names},
		{"bytes", 'b', ARG_FLAG, &ret_options->wants_bytes, NULL, "sizes in bytes"},
	};

	check(OPTIONS_COMMON + n_more < OPTIONS_MAX);
	if (n_more)
		memcpy(&table[OPTIONS_COMMON], more, n_more * sizeof(*more));

	*ret_options = (struct options){.socket = socket && *socket ? socket : default_socket()};
	return args_parse(usage, table, argc, argv, ret_positional);
}

int options_parse(const struct args_usage *usage, int argc, char **argv,
		  struct options *ret_options, int *ret_positional)
{
	return options_parse_with(usage, NULL, 0, argc, argv, ret_options, ret_positional);
}

void table_add_size(struct table *table, const struct options *options, uint64_t bytes)
{
	char text[UNITS_MAX];

	table_add(table, format_size(options, text, bytes));
}

const char *format_size(const struct options *options, char buf[UNITS_MAX], uint64_t bytes)
{
	if (!options->wants_bytes)
		return units_format_size(buf, bytes);
	snprintf(buf, UNITS_MAX, "%" PRIu64, bytes);
	return buf;
}
