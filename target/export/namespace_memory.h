/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Namespaces in RAM as registered memory, so that RDMA moves their data without a buffer.
 * Registering takes the kernel most of a second for each GiB, because it has to find and clear
 * every page. A thread of its own does it while hosts connect; until then, the data that they read
 * and write is copied.
 */
#pragma once

#include <stddef.h>

struct domain;
struct namespace;

/* Control thread. Begins; nothing if it is registered or about to be. what: "NQN, namespace 1", for
 * the log, copied. If it fails, that is said in the log, and data is copied for good. */
void namespace_memory_register(struct namespace *ns, const struct domain *domain, const char *what);
/* Control thread; no poller uses the device (or the namespace) any more. Undoes it, or gives up the
 * one that is under way, which takes a moment. */
void namespace_memory_forget(struct namespace *ns, unsigned device_index);
/* Control thread, when all is forgotten: the thread ends. */
void namespace_memory_end(void);
