/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of connected hosts (the struct is in engine/record/host.h). Control thread, which owns
 * them; references keep a host in the list. */
#pragma once

#include "target/engine/record/host.h"

/* A new reference to the host of that name; NULL: no memory. */
struct host *host_take(struct target *target, const char *nqn);
/* A new reference to the guest for that address. */
struct host *host_take_guest(struct target *target, const union addr *remote);
/* NULL: not connected. */
struct host *host_find(const struct target *target, const char *nqn);
struct host *host_find_guest(const struct target *target, const union addr *remote);
/* Applies a new configuration's rate limits to all hosts. */
void hosts_set_qos(struct target *target);
/* The same for the limits that pollers read; once there are pollers. */
void hosts_set_limits(struct target *target);
/* Accepts NULL. */
void host_give(struct host *host);
