/* SPDX-License-Identifier: BSD-3-Clause */
/* See fd_limit.h. Checked at the start, since later each open(2) would fail on its own. */
#include <sys/resource.h>

#include "base/fd_limit.h"
#include "base/output.h"

enum {
	FILES_MIN = 64,
};

int fd_limit_raise(const char *program)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return EXIT_OK;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max >= FILES_MIN)
		return EXIT_OK;
	return fail_with(program, EXIT_PRIVILEGE,
			 "raise it: ulimit -n 65536, or LimitNOFILE=65536 in the unit",
			 "the limit of open files is %llu, and %d are the least",
			 (unsigned long long)limit.rlim_max, FILES_MIN);
}
