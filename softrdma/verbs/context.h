/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device, its contexts with their asynchronous events, and the GID table.
 *
 * Any thread may call. The application owns contexts and frees them through the verbs calls. Public
 * calls return NULL with errno, or an errno value; sr_gid_at() returns 0 or -errno.
 */
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "softrdma/fabric/seg.h"
#include "softrdma/process/api.h"
#include "softrdma/verbs/domain.h"

/* The limits that the device reports: about those of a common adapter. */
enum {
	DEV_MAX_SGE = 30,
	DEV_MAX_WR = 16384,
	DEV_MAX_CQE = (1 << 22) - 1,
	DEV_MAX_INLINE = 220,
	DEV_MAX_RD_ATOMIC = 16,
	DEV_MAX_SRQ_SGE = 31,
	DEV_MAX_MSG = 1 << 30,
	DEV_N_VECTORS = 4,
	DEV_MAX_AH = 1 << 20,
	DEV_PKEY = 0xffff,
};

struct sr_async_event {
	struct sr_async_event *next;
	struct ibv_async_event ev;
};

struct sr_ctx {
	struct verbs_context v; /* must be first: its last member is the ibv_context */
	pthread_mutex_t lock;	/* guards the queue and all async_counts. Leaf. */
	struct sr_async_event *first, **last;
	struct sr_ctx *next;
};

/* From the handle that the program has to our object around it. */
static inline struct sr_ctx *sr_to_ctx(struct ibv_context *c)
{
	return container_of(c, struct sr_ctx, v.context);
}
