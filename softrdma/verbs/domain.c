/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains, thread domains and parent domains.
 *
 * A domain is a number, which keys and queue pairs carry in the segment. A parent domain has the
 * number of the domain below it, so keys of either serve the queue pairs of the other. A thread
 * domain promises that one thread uses the objects inside; the locks are taken all the same,
 * because the helper runs their queues too. Receive queues and completion queues lie in the
 * segment, where peers find them, so a program's allocator is asked for send queues only.
 */
#include "softrdma/verbs/domain.h"

#include <errno.h>
#include <stdlib.h>

#include "softrdma/process/likeness.h"
#include "softrdma/verbs/removal.h"

SR_API struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	static _Atomic uint32_t last_number;
	struct sr_pd *pd = calloc(1, sizeof(*pd));

	if (!pd) {
		errno = ENOMEM;
		return NULL;
	}
	pd->ib.context = c;
	pd->number = pd->ib.handle = atomic_fetch_add(&last_number, 1) + 1;
	sr_removal_hold(HOLD_PD);
	return &pd->ib;
}

SR_API int ibv_dealloc_pd(struct ibv_pd *ib)
{
	struct sr_pd *pd = sr_to_pd(ib);

	if (atomic_load(&pd->users))
		return EBUSY;
	if (pd->below)
		atomic_fetch_sub(&pd->below->users, 1);
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	free(pd);
	sr_removal_unhold(HOLD_PD);
	return 0;
}

/* ---- thread domains -------------------------------------------------------- */

struct ibv_td *sr_td_alloc(struct ibv_context *c, struct ibv_td_init_attr *attr)
{
	struct sr_td *td;

	if (sr_is_siw() || attr->comp_mask) {
		errno = sr_is_siw() ? EOPNOTSUPP : EINVAL;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td) {
		errno = ENOMEM;
		return NULL;
	}
	td->ib.context = c;
	return &td->ib;
}

int sr_td_dealloc(struct ibv_td *ib)
{
	struct sr_td *td = container_of(ib, struct sr_td, ib);

	if (atomic_load(&td->users))
		return EBUSY;
	free(td);
	return 0;
}

/* ---- parent domains -------------------------------------------------------- */

static int check_parent(const struct ibv_parent_domain_init_attr *a)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (sr_is_siw())
		return EOPNOTSUPP;
	if (!a->pd || a->comp_mask & ~known)
		return EINVAL;
	return a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS && (!a->alloc || !a->free)
		       ? EINVAL
		       : 0;
}

static void fill_parent(struct sr_pd *pd, const struct ibv_parent_domain_init_attr *a)
{
	pd->below = sr_to_pd(a->pd);
	pd->number = pd->ib.handle = pd->below->number;
	pd->td = a->td ? container_of(a->td, struct sr_td, ib) : NULL;
	if (a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = a->alloc;
		pd->free = a->free;
	}
	if (a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->context = a->pd_context;
	atomic_fetch_add(&pd->below->users, 1);
	if (pd->td)
		atomic_fetch_add(&pd->td->users, 1);
}

struct ibv_pd *sr_parent_domain_alloc(struct ibv_context *c,
				      struct ibv_parent_domain_init_attr *attr)
{
	int err = check_parent(attr);
	struct sr_pd *pd = err ? NULL : calloc(1, sizeof(*pd));

	if (!pd) {
		errno = err ? err : ENOMEM;
		return NULL;
	}
	pd->ib.context = c;
	fill_parent(pd, attr);
	sr_removal_hold(HOLD_PD);
	return &pd->ib;
}

void *sr_domain_alloc(struct sr_pd *pd, size_t size, size_t alignment, enum domain_memory type,
		      struct sr_pd **ret_pd)
{
	void *at = IBV_ALLOCATOR_USE_DEFAULT;

	if (pd && pd->alloc)
		at = pd->alloc(&pd->ib, pd->context, size, alignment, type);
	*ret_pd = at == IBV_ALLOCATOR_USE_DEFAULT ? NULL : pd;
	return *ret_pd ? at : aligned_alloc(alignment, size);
}

void sr_domain_free(struct sr_pd *pd, void *at, enum domain_memory type)
{
	if (!pd)
		free(at);
	else if (at)
		pd->free(&pd->ib, pd->context, at, type);
}
