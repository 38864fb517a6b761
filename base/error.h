/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A failure for people: on stderr, in the log or in the answer of a control socket. Functions
 * below the one that words the message return a negative errno; a host receives an nvme_status.
 *
 * A function that words its own failures has a last parameter `struct error *error`, never NULL.
 * It returns a negative errno, or NULL, exactly when it has filled *error. Before the call and
 * after success *error is unspecified. The struct contains its texts, owns nothing and may be
 * copied. Plain data, any thread, never shared.
 *
 * The message is one line: what failed, where and why, without the program's name and without a
 * full stop. The hint is one line that names what to do, or "". Text that does not fit is cut.
 */
#pragma once

#include <stdarg.h>
#include <stdint.h>

/* Exit codes of all programs, and the "code" of every failure in JSON. docs/CONVENTIONS.md. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_CONFIG = 3,
	EXIT_NOT_FOUND = 4,
	EXIT_BUSY = 5,
	EXIT_PARTIAL = 6,
	EXIT_UNREACHABLE = 7,
	EXIT_DENIED = 8,
	EXIT_PRIVILEGE = 9,
};

_Static_assert(EXIT_PRIVILEGE == 9, "the table of docs/CONVENTIONS.md");

enum {
	ERROR_MESSAGE_MAX = 1024, /* the length of a log record, which would cut longer text */
	ERROR_HINT_MAX = 256,
};

struct error {
	enum exit_code code; /* exit code of a program that ends with this failure */
	char message[ERROR_MESSAGE_MAX];
	char hint[ERROR_HINT_MAX];
	uint64_t at_ns; /* clock_ns() when it was filled; 0: unknown */
};

/* Fills all of *error. hint may be NULL or "". No argument may point into *error. */
__attribute__((format(printf, 4, 5))) void error_set(struct error *error, enum exit_code code,
						     const char *hint, const char *fmt, ...);
/* The same with the exit code that r, a negative errno, stands for, and without a hint. Returns r:
 * `return error_refuse(error, -EINVAL, ...);`. */
__attribute__((format(printf, 3, 4))) int error_refuse(struct error *error, int r, const char *fmt,
						       ...);
__attribute__((format(printf, 3, 0))) int error_refuse_list(struct error *error, int r,
							    const char *fmt, va_list ap);
/* The exit code that r, a negative errno, stands for. */
enum exit_code error_code_of(int r);
__attribute__((format(printf, 4, 0))) void error_set_list(struct error *error, enum exit_code code,
							  const char *hint, const char *fmt,
							  va_list ap);
