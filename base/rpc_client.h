/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Client of the control socket; see rpc.h. The command line tools use it: one call a connection,
 * blocking. One deadline bounds all steps.
 */
#pragma once

struct error;
struct json_object;

/* Client: blocks for at most timeout_ms (-1: no limit). params is borrowed and may be NULL. 0 with
 * *ret_result, which the caller owns; -ENOENT, -ECONNREFUSED: no process listens; -EREMOTEIO with
 * *error: the method failed; -ETIMEDOUT; -EPROTO: the answer is invalid; other -errno. */
int rpc_call(const char *path, const char *method, struct json_object *params, int timeout_ms,
	     struct json_object **ret_result, struct error *error);
