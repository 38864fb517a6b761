/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "target/export/guard/registrant.h"
#include "target/export/guard/reservation.h"

bool reservation_find(const struct reservation *state, const uint8_t *hostid, unsigned *ret_index)
{
	for (unsigned i = 0; state && i < state->n; i++) {
		if (memcmp(state->registrants[i].hostid, hostid, HOSTID_BYTES) != 0)
			continue;
		*ret_index = i;
		return true;
	}
	return false;
}

struct reservation *reservation_new(unsigned room)
{
	struct reservation *state = calloc(
		1, sizeof(*state) + room * (sizeof(struct registrant) + REGISTRANT_NAME_BYTES));

	if (state)
		state->room = room;
	return state;
}

const char *reservation_name_of(const struct reservation *state, unsigned index)
{
	check(index <= state->room);
	return (const char *)&state->registrants[state->room] +
	       (size_t)index * REGISTRANT_NAME_BYTES;
}

char *reservation_name(struct reservation *reservation, unsigned index)
{
	check(index <= reservation->room);
	return (char *)&reservation->registrants[reservation->room] +
	       (size_t)index * REGISTRANT_NAME_BYTES;
}

bool reservation_is_of_other(const struct reservation *now, const uint8_t *hostid,
			     const char *hostnqn, char ret_nqn[NVMF_NQN_MAX + 1])
{
	unsigned index;

	if (!reservation_find(now, hostid, &index) || !*reservation_name_of(now, index) ||
	    !strcmp(reservation_name_of(now, index), hostnqn))
		return false;
	strcpy(ret_nqn, reservation_name_of(now, index));
	return true;
}

struct reservation *reservation_copy(const struct reservation *now)
{
	struct reservation *next = reservation_new(now ? now->n + 1 : 1);

	if (!next || !now)
		return next;
	next->generation = now->generation;
	next->type = now->type;
	next->is_persistent = now->is_persistent;
	next->holder = now->holder;
	next->n = now->n;
	memcpy(next->registrants, now->registrants, now->n * sizeof(now->registrants[0]));
	memcpy(reservation_name(next, 0), reservation_name_of(now, 0),
	       (size_t)now->n * REGISTRANT_NAME_BYTES);
	return next;
}

void reservation_remove(struct reservation *next, unsigned index)
{
	check(index < next->n);
	if (reservation_has_holder(next->type) && next->holder == index)
		next->type = NVME_RTYPE_NONE;
	next->n--;
	memmove(&next->registrants[index], &next->registrants[index + 1],
		(next->n - index) * sizeof(next->registrants[0]));
	memmove(reservation_name(next, index), reservation_name(next, index + 1),
		(size_t)(next->n - index) * REGISTRANT_NAME_BYTES);
	if (next->holder > index)
		next->holder--;
	if (next->n == 0)
		next->type = NVME_RTYPE_NONE;
	if (!reservation_has_holder(next->type))
		next->holder = 0;
}

int reservation_drop(const struct reservation *now, const uint8_t *hostid,
		     struct reservation **ret_next)
{
	unsigned index;

	if (!reservation_find(now, hostid, &index))
		return -ENOENT;
	*ret_next = reservation_copy(now);
	if (!*ret_next)
		return -ENOMEM;
	reservation_remove(*ret_next, index);
	(*ret_next)->generation++;
	return 0;
}
