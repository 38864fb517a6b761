/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains, thread domains, and parent domains, which join one of each and may bring an
 * allocator of the program's (ibv_alloc_parent_domain(3)).
 *
 * Application threads. The application owns the domains and frees them through the verbs calls,
 * which return EBUSY while an object is inside: `users` counts those. Public calls return NULL with
 * errno, or an errno value.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "softrdma/process/api.h"

/* The argument resource_type of a parent domain's allocator. */
enum domain_memory {
	DOMAIN_SEND_QUEUE = 1,
};

struct sr_td {
	struct ibv_td ib;
	_Atomic uint32_t users;
};

struct sr_pd {
	struct ibv_pd ib;
	uint32_t number; /* a parent domain has that of the domain below it */
	_Atomic uint32_t users;

	/* Set in a parent domain only. */
	struct sr_pd *below; /* NULL: this is a protection domain */
	struct sr_td *td;    /* may be NULL */
	void *(*alloc)(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		       uint64_t type); /* NULL: memory is malloc's */
	void (*free)(struct ibv_pd *pd, void *context, void *at, uint64_t type);
	void *context;
};

/* From the handle that the program has to our object around it. */
static inline struct sr_pd *sr_to_pd(struct ibv_pd *p)
{
	return container_of(p, struct sr_pd, ib);
}

/* The calls of struct verbs_context. */
struct ibv_td *sr_td_alloc(struct ibv_context *c, struct ibv_td_init_attr *attr);
int sr_td_dealloc(struct ibv_td *td);
struct ibv_pd *sr_parent_domain_alloc(struct ibv_context *c,
				      struct ibv_parent_domain_init_attr *attr);

/*
 * Memory for an object inside pd: from the program's allocator if pd is a parent domain that has
 * one, else from malloc, also where pd is NULL. *ret_pd: for sr_domain_free. The alignment is a
 * power of two, which divides size. NULL: none is left. The caller holds no lock, because the
 * allocator may call verbs.
 */
void *sr_domain_alloc(struct sr_pd *pd, size_t size, size_t alignment, enum domain_memory type,
		      struct sr_pd **ret_pd);
/* Frees it; pd is the *ret_pd of its allocation, NULL for malloc's. Accepts at = NULL. */
void sr_domain_free(struct sr_pd *pd, void *at, enum domain_memory type);
