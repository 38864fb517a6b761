/* SPDX-License-Identifier: BSD-3-Clause */
/* The NBD clients and the workers in the answer to status; see bridge_rpc.c. Control thread. */
#pragma once

struct bridge;
struct json_object;

/* "connections" and "workers" of status. The caller owns them. */
struct json_object *bridge_conns_to_json(const struct bridge *bridge);
struct json_object *bridge_workers_to_json(const struct bridge *bridge);
