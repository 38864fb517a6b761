/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects in the answers of a volume process: bridge_rpc.c, bridge_clients.c. Control thread. */
#pragma once

#include "base/clock.h"
#include "base/json.h"
#include "nbd_bridge/control/bridge_internal.h"

static inline void put_string(struct json_object *o, const char *key, const char *value)
{
	json_add(o, key, json_object_new_string(value));
}

static inline void put_uint(struct json_object *o, const char *key, uint64_t value)
{
	json_add(o, key, json_object_new_uint64(value));
}

static inline void put_bool(struct json_object *o, const char *key, bool value)
{
	json_add(o, key, json_object_new_boolean(value));
}

/* Whole seconds; null for "never" and "off". */
static inline void put_seconds(struct json_object *o, const char *key, uint64_t ns)
{
	if (ns == UINT64_MAX)
		json_add_null(o, key);
	else
		put_uint(o, key, ns / NSEC_PER_SEC);
}
