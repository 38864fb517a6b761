/* SPDX-License-Identifier: BSD-3-Clause */
/* --spin of serve, attach and bench. Thread: main. */
#pragma once

#include "base/error.h"
#include "base/spin.h"

/* The argument as a value of spin.h. 0, or an exit code with *error filled. */
static inline int spin_option(const char *text, uint64_t *ret_spin, struct error *error)
{
	if (spin_parse(text, ret_spin) == 0)
		return 0;
	error_set(error, EXIT_USAGE, NULL,
		  "--spin: '%.20s' is not auto, always, never or a time up to 1s", text);
	return EXIT_USAGE;
}
