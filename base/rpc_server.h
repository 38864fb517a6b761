/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Server of the control socket; see rpc.h. All of it runs on the loop that the server was made
 * with.
 */
#pragma once

struct loop;
struct rpc_method;
struct rpc_server;

/* Creates the socket file path, mode 0660. Replaces a stale file, on which no process listens. 0,
 * or -errno; -EADDRINUSE: a process listens on path. If several start at once, one succeeds.
 * methods and context are borrowed. */
int rpc_server_new(struct loop *loop, const char *path, const struct rpc_method *methods,
		   void *context, struct rpc_server **ret_server);
/* Ends all connections and removes the socket file. Accepts NULL. */
void rpc_server_free(struct rpc_server *server);
