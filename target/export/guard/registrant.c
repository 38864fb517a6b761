/* SPDX-License-Identifier: BSD-3-Clause */
/* The registrants of a reservation and, behind them, the NQNs of their hosts: see reservation.h. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
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
