/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of the process, in the order in which they came; see arguments.h. getopt_long moves
 * the elements of argv, so a program that starts itself again needs a copy from before. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "tools/rblk/arguments.h"

char **arguments;

int arguments_keep(int argc, char **argv)
{
	check(!arguments);
	arguments = calloc((size_t)argc + 1, sizeof(*arguments));
	if (!arguments)
		return -ENOMEM;
	memcpy(arguments, argv, (size_t)argc * sizeof(*arguments));
	return 0;
}

void arguments_free(void)
{
	free(arguments);
	arguments = NULL;
}
