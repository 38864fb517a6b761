/* SPDX-License-Identifier: BSD-3-Clause */
/* See region.h. Each transfer takes its locks in the order of their places, so none waits in a
 * circle. */
#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "target/store/region.h"

enum {
	REGION_SHIFT = 16,
	LOCKS = 64, /* one bit of a mask each */
};

struct regions {
	pthread_rwlock_t locks[LOCKS];
};

struct regions *regions_new(void)
{
	struct regions *regions = malloc(sizeof(*regions));
	pthread_rwlockattr_t fair;

	if (!regions)
		return NULL;
	pthread_rwlockattr_init(&fair);
	/* Else readers that follow each other keep a writer out for ever. */
	pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	for (unsigned i = 0; i < LOCKS; i++)
		pthread_rwlock_init(&regions->locks[i], &fair);
	pthread_rwlockattr_destroy(&fair);
	return regions;
}

void regions_free(struct regions *regions)
{
	for (unsigned i = 0; regions && i < LOCKS; i++)
		pthread_rwlock_destroy(&regions->locks[i]);
	free(regions);
}

static uint64_t places(uint64_t offset, uint64_t n)
{
	uint64_t first = offset >> REGION_SHIFT, last = (offset + n - 1) >> REGION_SHIFT;
	uint64_t mask = 0;

	if (last - first >= LOCKS)
		return UINT64_MAX;
	for (uint64_t i = first; i <= last; i++)
		mask |= (uint64_t)1 << i % LOCKS;
	return mask;
}

void regions_lock(struct regions *regions, uint64_t offset, uint64_t n, bool is_change)
{
	uint64_t mask = regions ? places(offset, n) : 0;

	for (unsigned i = 0; i < LOCKS; i++) {
		int r = 0;

		if (mask >> i & 1)
			r = is_change ? pthread_rwlock_wrlock(&regions->locks[i])
				      : pthread_rwlock_rdlock(&regions->locks[i]);
		check(r == 0);
	}
}

void regions_unlock(struct regions *regions, uint64_t offset, uint64_t n)
{
	uint64_t mask = regions ? places(offset, n) : 0;

	for (unsigned i = 0; i < LOCKS; i++)
		if (mask >> i & 1)
			pthread_rwlock_unlock(&regions->locks[i]);
}
