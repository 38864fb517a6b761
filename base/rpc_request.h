/* SPDX-License-Identifier: BSD-3-Clause */
/* One request line and its answer, without the connection; internal to base/rpc*. The server's
 * loop. */
#pragma once

#include "base/error.h"
#include "base/rpc.h"

struct rpc_answer {
	char *line; /* owned by the caller, with its newline; NULL: no answer */
	size_t n;
	bool must_close; /* the connection ends when the line is sent */
};

/* Runs the request in n bytes, without a newline. The bytes are not trusted. */
struct rpc_answer rpc_run_line(const struct rpc_method *methods, void *context, const char *line,
			       size_t n);
/* An error answer without the id of a request. code: an exit code or one of JSON-RPC. */
struct rpc_answer rpc_answer_error(int code, const char *message);
/* The answer to a line that is longer than the limit. */
struct rpc_answer rpc_answer_too_long(void);

/* Calls error_set and returns NULL: `return rpc_refuse(error, ...);` in a method. */
__attribute__((format(printf, 4, 5))) void *rpc_refuse(struct error *error, enum exit_code code,
						       const char *hint, const char *fmt, ...);
