/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RAM namespaces as registered memory, so that RDMA moves their data without a buffer. Registration
 * takes the kernel most of a second for each GiB, because it has to find and clear every page. A
 * separate thread does it while hosts connect; until it is done, pollers copy the data.
 */
#pragma once

#include <stddef.h>

struct domain;
struct namespace;

/* Control. Starts the registration, unless it is done or under way. what: "NQN, namespace 1", for
 * the log, copied. A failure is logged, and data of this namespace is always copied. */
void namespace_memory_register(struct namespace *ns, const struct domain *domain, const char *what);
/* Control, once no poller uses the device (or the namespace) any more. Ends the registration, or
 * cancels the one under way, which takes a moment. */
void namespace_memory_forget(struct namespace *ns, unsigned device_index);
/* Control, when all is forgotten: ends the thread. */
void namespace_memory_end(void);
