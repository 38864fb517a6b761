/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "target/export/guard/guard_new.h"
#include "target/export/guard/reservation.h"

static void name_record(struct guard *guard)
{
	char uuid[UUID_STR_LEN];

	if (guard->store && guard->store->own) {
		snprintf(guard->record, sizeof(guard->record), "%s", guard->store->own);
		return;
	}
	uuid_unparse_lower(guard->uuid, uuid);
	snprintf(guard->record, sizeof(guard->record), "%s.json", uuid);
}

struct guard *guard_new(const uuid_t uuid, struct record_store *store, bool is_volatile)
{
	struct guard *guard = aligned_alloc(_Alignof(struct guard), sizeof(*guard));

	if (!guard)
		return NULL;
	memset(guard, 0, sizeof(*guard));
	guard->n_refs = 1;
	uuid_copy(guard->uuid, uuid);
	guard->store = store;
	name_record(guard);
	guard->is_volatile = is_volatile;
	pthread_mutex_init(&guard->lock, NULL);
	list_init(&guard->turns);
	list_init(&guard->aged);
	for (unsigned i = 0; i < POLLERS_MAX; i++) {
		list_init(&guard->locals[i].passes);
		list_init(&guard->locals[i].parked);
		guard->locals[i].guard = guard;
	}
	return guard;
}

void guard_ref(struct guard *guard)
{
	check(guard->n_refs > 0);
	guard->n_refs++;
}

void guard_unref(struct guard *guard)
{
	if (!guard)
		return;
	check(guard->n_refs > 0);
	if (--guard->n_refs)
		return;
	check(!guard->owner && list_is_empty(&guard->turns));
	for (unsigned i = 0; i < POLLERS_MAX; i++)
		check(list_is_empty(&guard->locals[i].passes) &&
		      list_is_empty(&guard->locals[i].parked));
	free(atomic_load(&guard->reservation));
	free(atomic_load(&guard->bad_blocks));
	pthread_mutex_destroy(&guard->lock);
	free(guard);
}

void guard_set_flag(struct guard *guard, enum guard_flag flag, bool is_set)
{
	if (is_set)
		atomic_fetch_or(&guard->flags, (unsigned)flag);
	else
		atomic_fetch_and(&guard->flags, ~(unsigned)flag);
}

bool guard_is_of_other(struct guard *guard, const uint8_t hostid[16], const char *hostnqn,
		       char ret_nqn[NVMF_NQN_MAX + 1])
{
	const struct reservation *reservation;
	bool is_of_other;

	pthread_mutex_lock(&guard->lock);
	reservation = atomic_load(&guard->reservation);
	is_of_other = reservation && reservation_is_of_other(reservation, hostid, hostnqn, ret_nqn);
	pthread_mutex_unlock(&guard->lock);
	return is_of_other;
}
