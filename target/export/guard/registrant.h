/* SPDX-License-Identifier: BSD-3-Clause */
/* The registrants of a reservation and, behind them, the NQNs of their hosts: see reservation.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "transport/wire/fabrics.h"

struct reservation;

/* A state without registrants. The caller frees it with free(); NULL: no memory. */
struct reservation *reservation_new(unsigned room);
/* The same state with room for one more registrant; now may be NULL. As reservation_new. */
struct reservation *reservation_copy(const struct reservation *now);
/* Takes the registrant of that index out of a state that is being made. A reservation ends with its
 * holder; one of all registrants ends with the last of them. */
void reservation_remove(struct reservation *next, unsigned index);
/* An administrator ends the registration of that identifier: makes the next state, which the caller
 * frees. 0; -ENOENT: there is none; -ENOMEM. */
int reservation_drop(const struct reservation *now, const uint8_t *hostid,
		     struct reservation **ret_next);
/* The NQN of a registrant's host, in a field of the largest size. "": not known. Files of an
 * earlier rblkd lack it; the first host with this identifier that changes anything sets it. */
char *reservation_name(struct reservation *reservation, unsigned index);
const char *reservation_name_of(const struct reservation *reservation, unsigned index);
/* guard_is_of_other. */
bool reservation_is_of_other(const struct reservation *now, const uint8_t *hostid,
			     const char *hostnqn, char ret_nqn[NVMF_NQN_MAX + 1]);
/* The index of the registrant with this identifier. False: not registered, or now is NULL. */
bool reservation_find(const struct reservation *now, const uint8_t *hostid, unsigned *ret_index);
