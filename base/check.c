/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/check.h"

#include "base/log.h"

void check_failed(const char *file, int line, const char *func, const char *cond)
{
	log_set_sink(NULL, NULL); /* the process ends: its user is told, too */
	log_err("%s:%d: %s: check failed: %s", file, line, func, cond);
	abort();
}
