/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles. The application owns one, and frees it with ibv_destroy_ah(); a work request
 * copies what it needs of it. Any thread; errors as in the manual pages.
 */
#pragma once

#include "softrdma/fabric/datagram.h"
#include "softrdma/verbs/context.h"

struct sr_ah {
	struct ibv_ah ib;
	struct sr_address to;
};

/* From the handle that the program has to our object around it. */
static inline struct sr_ah *sr_to_ah(struct ibv_ah *ah)
{
	return container_of(ah, struct sr_ah, ib);
}
