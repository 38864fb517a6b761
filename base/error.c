/* SPDX-License-Identifier: BSD-3-Clause */
/* See error.h. */
#include <stdio.h>

#include "base/error.h"

void error_set_list(struct error *error, enum exit_code code, const char *hint, const char *fmt,
		    va_list ap)
{
	error->code = code;
	vsnprintf(error->message, sizeof(error->message), fmt, ap);
	snprintf(error->hint, sizeof(error->hint), "%s", hint ? hint : "");
}

void error_set(struct error *error, enum exit_code code, const char *hint, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	error_set_list(error, code, hint, fmt, ap);
	va_end(ap);
}
