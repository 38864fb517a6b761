/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reservations (Base 2.0, 8.19): registrants, the holder, and what each host may do. Pure: a state
 * is immutable, and each action makes the next state from it. command/io/resv_command.c applies
 * them to a guard.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "target/export/guard/pass.h"
#include "transport/wire/fabrics.h"
#include "transport/wire/nvme.h"
#include "transport/wire/nvme_reservation.h"

enum {
	HOSTID_BYTES = 16,
	REGISTRANTS_MAX = 256,
	REGISTRANT_NAME_BYTES = NVMF_NQN_MAX + 1,
};

struct registrant {
	uint8_t hostid[HOSTID_BYTES];
	uint64_t key;
};

struct reservation {
	uint32_t generation;
	uint8_t type;	    /* enum nvme_reservation_type */
	bool is_persistent; /* PTPL */
	unsigned holder;    /* an index; 0 where reservation_has_holder is false */
	unsigned n, room;
	struct registrant registrants[]; /* `room` of them, and as many NQNs of hosts behind them */
};

/* A request of a host, in its command. */
struct reservation_wish {
	const uint8_t *hostid;
	const char *hostnqn; /* of the host that sent the command */
	unsigned action;     /* RREGA, RACQA, RRELA */
	bool ignores_key;
	unsigned cptpl, type;
	uint64_t crkey, key; /* key: NRKEY, PRKEY */
	bool can_persist;    /* the state is kept in a store */
	bool is_id_bound;    /* to this host: an earlier registration with it is its own */
};

/*
 * Makes the namespace's next state; or returns the status to refuse with (with DNR) and leaves
 * *ret_next alone. `now` is NULL where no host was ever registered. The caller frees *ret_next with
 * free().
 */
typedef enum nvme_status reservation_action(const struct reservation *now,
					    const struct reservation_wish *wish,
					    struct reservation **ret_next);
reservation_action reservation_register, reservation_acquire, reservation_release;
/* Set Features 83h. */
reservation_action reservation_set_persistence;

/* Whether a host may access the namespace in this way. now may be NULL: there is no reservation. */
bool reservation_allows(const struct reservation *now, const uint8_t *hostid, enum access access);
static inline bool reservation_is_of_all(unsigned type)
{
	return type == NVME_RTYPE_WRITE_EXCLUSIVE_ALL || type == NVME_RTYPE_EXCLUSIVE_ACCESS_ALL;
}
/* Whether one registrant holds it: false without a reservation and for types of all registrants. */
static inline bool reservation_has_holder(unsigned type)
{
	return type != NVME_RTYPE_NONE && !reservation_is_of_all(type);
}
/* Whether the host is a registrant. */
bool reservation_is_registered(const struct reservation *now, const uint8_t *hostid);
/* Whether the registrant of that index holds the reservation, alone or with all others. */
bool reservation_is_holder(const struct reservation *now, unsigned index);
/* The notice that the registrant of `before` gets about a change by actor; actor gets NONE. */
enum nvme_resv_notice reservation_notice(const struct reservation *before,
					 const struct reservation *after, const uint8_t *actor,
					 unsigned index);

/* ---- registrants, and behind them the NQNs of their hosts ---- */

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
