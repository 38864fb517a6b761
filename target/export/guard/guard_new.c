/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a guard comes to life, with what was kept of the last one (guard_text.c). Control
 * thread, before anybody enters.
 *
 * A file that is not as we write it stops the start: to serve a namespace without the reservation
 * that protects it would be worse.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "target/export/guard/guard_state.h"
#include "target/export/guard/reservation.h"
#include "target/export/snapshot.h"

static_assert((int)GUARD_POLLERS == (int)POLLERS_MAX, "a part for each poller");

/* ---- life ----------------------------------------------------------------------------------- */

struct guard *guard_new(const uuid_t uuid, struct state_directory *directory, bool is_volatile)
{
	struct guard *guard = aligned_alloc(_Alignof(struct guard), sizeof(*guard));

	if (!guard)
		return NULL;
	memset(guard, 0, sizeof(*guard));
	guard->n_refs = 1;
	uuid_copy(guard->uuid, uuid);
	guard->directory = directory;
	guard->is_volatile = is_volatile;
	pthread_mutex_init(&guard->lock, NULL);
	list_init(&guard->turns);
	for (unsigned i = 0; i < GUARD_POLLERS; i++) {
		list_init(&guard->locals[i].passes);
		list_init(&guard->locals[i].parked);
		guard->locals[i].guard = guard;
	}
	return guard;
}

void guard_ref(struct guard *guard)
{
	guard->n_refs++;
}

void guard_unref(struct guard *guard)
{
	if (!guard || --guard->n_refs)
		return;
	check(!guard->owner);
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

void guard_file_name(const struct guard *guard, char name[GUARD_NAME_BYTES])
{
	char uuid[UUID_STR_LEN];

	uuid_unparse_lower(guard->uuid, uuid);
	snprintf(name, GUARD_NAME_BYTES, "%s.json", uuid);
}

int guard_load(struct guard *guard, char *why, size_t n)
{
	char name[GUARD_NAME_BYTES], *text;
	int r = 0;

	if (!guard->directory)
		return 0;
	guard_file_name(guard, name);
	r = state_file_read(guard->directory, name, &text);
	if (r < 0)
		snprintf(why, n, "cannot read %s/%s: %s", state_directory_path(guard->directory),
			 name, strerror(-r));
	if (r < 0 || !text)
		return r;
	if (!guard_parse(guard, text)) {
		snprintf(
			why, n,
			"%s/%s is damaged: it holds this namespace's reservations; remove it to serve the namespace without them",
			state_directory_path(guard->directory), name);
		r = -EINVAL;
	}
	free(text);
	return r;
}
