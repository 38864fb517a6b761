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

/* Calls error_set and returns NULL: `return rpc_refuse(error, ...);` in a method. */
__attribute__((format(printf, 4, 5))) void *rpc_refuse(struct error *error, enum exit_code code,
						       const char *hint, const char *fmt, ...);

struct rpc_method {
	const char *name; /* NULL ends the table */
	/* Runs on the server's loop; must neither block nor free the server. params is borrowed
	 * and may be NULL. Returns the result, which the server then owns, or NULL with *error. */
	struct json_object *(*call)(void *context, struct json_object *params, struct error *error);
};

struct rpc_server;
/* Creates the socket file path, mode 0660. Replaces a stale file, on which no process listens. 0,
 * or -errno; -EADDRINUSE: a process listens on path. If several start at once, one succeeds.
 * methods and context are borrowed. */
int rpc_server_new(struct loop *loop, const char *path, const struct rpc_method *methods,
		   void *context, struct rpc_server **ret_server);
/* Ends all connections and removes the socket file. Accepts NULL. */
void rpc_server_free(struct rpc_server *server);

/* Client: blocks for at most timeout_ms (-1: no limit). params is borrowed and may be NULL. 0 with
 * *ret_result, which the caller owns; -ENOENT, -ECONNREFUSED: no process listens; -EREMOTEIO with
 * *error: the method failed; -ETIMEDOUT; -EPROTO: the answer is invalid; other -errno. */
int rpc_call(const char *path, const char *method, struct json_object *params, int timeout_ms,
	     struct json_object **ret_result, struct error *error);
