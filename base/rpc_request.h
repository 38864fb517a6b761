/* SPDX-License-Identifier: BSD-3-Clause */
/* What a line of a client means, without its connection. The server's loop. */
#pragma once

#include "base/rpc.h"

struct rpc_answer {
	char *line; /* owned by who gets it, with its newline; NULL: there is none */
	size_t n;
	bool must_close; /* when it is sent */
};

/* Calls the method that n bytes ask for, without a newline; they are not trusted. */
struct rpc_answer rpc_run_line(const struct rpc_method *methods, void *context, const char *line,
			       size_t n);
/* To who asked for nothing that could be told: an exit code or one of JSON-RPC's. */
struct rpc_answer rpc_answer_error(int code, const char *message);
/* A line did not end within what is allowed. */
struct rpc_answer rpc_answer_too_long(void);
