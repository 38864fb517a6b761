/* SPDX-License-Identifier: BSD-3-Clause */
/* rblkd --check: the configuration, and what it names, as the service would find it. Main thread;
 * the caller may have become another user afterwards. */
#pragma once

#include "base/error.h"

struct check_mode {
	const char *path;   /* of the configuration, or "-" */
	const char *fabric; /* of the command line; NULL */
	const char *user;   /* of the command line; NULL: that of the service, or the caller's */
	bool is_default;    /* the path is that of the service */
};

/* Prints the result, and what was not looked at. Returns the exit code. */
enum exit_code check_mode_run(const struct check_mode *mode);
