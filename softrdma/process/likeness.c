/* SPDX-License-Identifier: BSD-3-Clause */
/* The device's name and kind; see likeness.h. Written once, at the start of the process. */
#include "softrdma/process/likeness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE                                                                                     \
	{                                                                                          \
		.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "softrdma0", \
		.dev_name = "uverbs0", .dev_path = "/sys/class/infiniband_verbs/uverbs0",          \
		.ibdev_path = "/sys/class/infiniband/softrdma0",                                   \
	}

static struct ibv_device devices[] = {DEVICE, DEVICE};
static bool is_siw, is_strict;

struct ibv_device *sr_incarnation(unsigned n_returns)
{
	return &devices[n_returns % 2];
}

bool sr_is_siw(void)
{
	return is_siw;
}

bool sr_is_strict(void)
{
	return is_strict;
}

/* A constructor, because the program decides by the transport's type as soon as it lists
 * devices. */
__attribute__((constructor)) static void choose_likeness(void)
{
	const char *like = getenv("SOFTRDMA_LIKE"), *strict = getenv("SOFTRDMA_STRICT");

	is_strict = strict && !strcmp(strict, "1");
	if (!like || !*like || !strcmp(like, "roce"))
		return;
	is_siw = !strcmp(like, "siw");
	if (!is_siw) {
		fprintf(stderr, "softrdma: SOFTRDMA_LIKE=%s: neither roce nor siw\n", like);
		return;
	}
	for (unsigned i = 0; i < 2; i++) {
		devices[i].node_type = IBV_NODE_RNIC;
		devices[i].transport_type = IBV_TRANSPORT_IWARP;
	}
}
