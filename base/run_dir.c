/* SPDX-License-Identifier: BSD-3-Clause */
/* See run_dir.h. Never in /tmp, where other users could create the sockets first. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/run_dir.h"

int run_dir_base(char base[PATH_MAX])
{
	const char *own = getenv("RBLK_RUN_DIR"), *xdg = getenv("XDG_RUNTIME_DIR");
	int n;

	if (own && *own)
		n = snprintf(base, PATH_MAX, "%s", own);
	else if (geteuid() == 0)
		n = snprintf(base, PATH_MAX, RUN_DIR_SYSTEM);
	else if (xdg && *xdg)
		n = snprintf(base, PATH_MAX, "%s/rblk", xdg);
	else
		return -ENOENT;
	return n >= PATH_MAX || base[0] != '/' ? -EINVAL : 0;
}

void run_dir_socket(char path[PATH_MAX], const char *name)
{
	char base[PATH_MAX];

	if (run_dir_base(base) < 0)
		snprintf(base, sizeof(base), RUN_DIR_SYSTEM);
	snprintf(path, PATH_MAX, "%.4000s/%s", base, name);
}
