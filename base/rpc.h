/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON-RPC 2.0 over a unix stream socket, one object a line; the control socket of rblkd
 * and of each volume process. Messages are at most 64 KiB from a client, nested at most
 * 16 deep; a client that does not finish a message within 5 s is dropped. Only root and
 * the owner's uid may call.
 *
 * A failed method answers {"code": EXIT_CODE, "message": ..., "data": {"hint": ...}};
 * what is no proper call answers with the codes that JSON-RPC reserves (-32700...).
 */
#pragma once

#include <json-c/json.h>

#include "base/error.h"
#include "base/loop.h"

/* error_set, which returns NULL, for a method to return. */
__attribute__((format(printf, 4, 5))) void *rpc_refuse(struct error *error, enum exit_code code,
						       const char *hint, const char *fmt, ...);

struct rpc_method {
	const char *name; /* NULL ends the table */
	/* params may be NULL, borrowed. Returns the result (owned by the caller), or NULL
	 * with *error filled. Runs on the server's loop; must not block, nor free it. */
	struct json_object *(*call)(void *context, struct json_object *params, struct error *error);
};

struct rpc_server;
/* Creates path (mode 0660; a stale socket file nobody listens on is replaced, a live one
 * is -EADDRINUSE; of several at a time one gets it). methods is borrowed. */
int rpc_server_new(struct loop *loop, const char *path, const struct rpc_method *methods,
		   void *context, struct rpc_server **ret_server);
/* Ends all connections and removes the socket file. Accepts NULL. */
void rpc_server_free(struct rpc_server *server);

/* Client, blocking, at most timeout_ms (-1: for ever). params is borrowed and may be
 * NULL. 0 with an owned *ret_result; -ENOENT/-ECONNREFUSED when nobody listens;
 * -EREMOTEIO with *error when the call failed; -ETIMEDOUT; -EPROTO when the answer is
 * none; other -errno. */
int rpc_call(const char *path, const char *method, struct json_object *params, int timeout_ms,
	     struct json_object **ret_result, struct error *error);
