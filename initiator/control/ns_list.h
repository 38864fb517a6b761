/* SPDX-License-Identifier: BSD-3-Clause */
/* The namespaces of a subsystem, blocking, for command-line tools. */
#pragma once

#include "base/error.h"
#include "initiator/control/volume_config.h"

enum {
	NS_LIST_MAX = 1024, /* what one Identify command lists; more are not asked for */
};

struct ns_list {
	unsigned n;
	uint32_t nsids[NS_LIST_MAX]; /* ascending, none is 0 */
};

/* Connects as a volume of config would, except that nsid and n_queues do not count, and asks for
 * the active namespaces (NVMe Base 2.0, CNS 02h). 0, or -1 with *error filled. Any thread, which
 * has no other loop. */
int ns_list_read(const struct volume_config *config, struct ns_list *ret_list, struct error *error);
