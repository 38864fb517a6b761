/* SPDX-License-Identifier: BSD-3-Clause */
/* See error.h. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

void error_set_list(struct error *error, enum exit_code code, const char *hint, const char *fmt,
		    va_list ap)
{
	error->code = code;
	error->at_ns = clock_ns();
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

enum exit_code error_code_of(int r)
{
	switch (-r) {
	case EADDRINUSE:
	case EBUSY:
		return EXIT_BUSY;
	case ENOMEM: /* nearly always the locked-memory limit */
	case EACCES:
	case EPERM:
		return EXIT_PRIVILEGE;
	default:
		return EXIT_FAILED;
	}
}

int error_refuse_list(struct error *error, int r, const char *fmt, va_list ap)
{
	error_set_list(error, error_code_of(r), NULL, fmt, ap);
	return r;
}

int error_refuse(struct error *error, int r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	error_refuse_list(error, r, fmt, ap);
	va_end(ap);
	return r;
}
