/* SPDX-License-Identifier: BSD-3-Clause */
/* Which connections keep others waiting: for `status` and `list connections`. Control thread. */
#pragma once

#include "target/engine/request/load.h"
#include "target/engine/record/target.h"

struct connection;
struct json_object;

struct connection_load {
	const struct connection *connection; /* borrowed */
	struct load load;
};

struct loads {
	struct connection_load *rows; /* owned; in the order of target->connections */
	unsigned n;
};

/* Asks each poller and waits for it, as a grace period does. No memory: there are no rows. */
void loads_measure(struct target *target, struct loads *ret_loads);
void loads_free(struct loads *loads);
/* All zeroes for one that has no row. */
struct load loads_of(const struct loads *loads, const struct connection *connection);
/* The load of all connections of a host: sums, and the longest times. */
struct load loads_of_host(const struct loads *loads, const char *nqn);
/* The fields of a load. */
void loads_add(struct json_object *o, const struct load *load);
/* Those with commands or buffers, the oldest command first: the first of them. */
struct json_object *control_list_holders(struct target *target);
