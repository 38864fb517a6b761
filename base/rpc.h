/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON-RPC 2.0 over a unix stream socket, one object a line: the control socket of rblkd and of
 * each volume process. A client's message has at most 64 KiB and 16 levels. A client that does not
 * finish a message within 5 s is disconnected. Only root and the owner's uid may call.
 *
 * A failed method answers {"code": EXIT_CODE, "message": ..., "data": {"hint": ...}}. An invalid
 * request answers with a code that JSON-RPC reserves (-32700...).
 *
 * The server runs on the loop that it was made with; rpc_call blocks any thread, and is for tools.
 */
#pragma once

#include <json-c/json.h>

#include "base/error.h"
#include "base/loop.h"

struct rpc_method {
	const char *name; /* NULL ends the table */
	/* Runs on the server's loop; must neither block nor free the server. params is borrowed
	 * and may be NULL. Returns the result, which the server then owns, or NULL with *error. */
	struct json_object *(*call)(void *context, struct json_object *params, struct error *error);
};

struct rpc_server;
