/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of hosts that are connected (the struct is engine/host.h). Control thread. */
#pragma once

#include "target/engine/host.h"

/* One more reference to the host of that name; NULL without memory. */
struct host *host_take(struct target *target, const char *nqn);
/* The same of the guest that comes from there. */
struct host *host_take_guest(struct target *target, const union addr *remote);
/* NULL: it is not here. */
struct host *host_find(const struct target *target, const char *nqn);
struct host *host_find_guest(const struct target *target, const union addr *remote);
/* The configuration has changed: limits of all hosts. */
void hosts_set_qos(struct target *target);
/* The same of what pollers look at; once there are pollers. */
void hosts_set_limits(struct target *target);
/* Accepts NULL. */
void host_give(struct host *host);
