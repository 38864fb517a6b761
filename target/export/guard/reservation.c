/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See reservation.h. Each action has the same shape: it copies the state with room for one more
 * registrant, checks in the specification's order, and changes the copy. A failure frees the copy.
 *
 * Register, Clear, both Preempts (7.5) and the drop by an administrator increment the generation;
 * Acquire and Release do not. It starts at 0 whenever rblkd starts, unless the state is shared with
 * other rblkd.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/export/guard/reservation.h"

/* ---- registrants --------------------------------------------------------------------------- */

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

/* ---- looking -------------------------------------------------------------------------------- */

static bool is_only_holder(unsigned type)
{
	return type == NVME_RTYPE_WRITE_EXCLUSIVE || type == NVME_RTYPE_EXCLUSIVE_ACCESS;
}

static bool is_for_writes(unsigned type)
{
	return type == NVME_RTYPE_WRITE_EXCLUSIVE ||
	       type == NVME_RTYPE_WRITE_EXCLUSIVE_REGISTRANTS ||
	       type == NVME_RTYPE_WRITE_EXCLUSIVE_ALL;
}

/* The host's registrant in a state that is being made. NULL: not registered. */
static struct registrant *own_of(struct reservation *next, const uint8_t *hostid,
				 unsigned *ret_index)
{
	return reservation_find(next, hostid, ret_index) ? &next->registrants[*ret_index] : NULL;
}

bool reservation_is_registered(const struct reservation *now, const uint8_t *hostid)
{
	unsigned index;

	return reservation_find(now, hostid, &index);
}

bool reservation_is_holder(const struct reservation *now, unsigned index)
{
	return now->type && (reservation_is_of_all(now->type) || now->holder == index);
}

bool reservation_allows(const struct reservation *now, const uint8_t *hostid, enum access access)
{
	unsigned index;

	if (!now || !now->type || access == ACCESS_NONE ||
	    (access == ACCESS_READ && is_for_writes(now->type)))
		return true;
	return reservation_find(now, hostid, &index) &&
	       (!is_only_holder(now->type) || now->holder == index);
}

enum nvme_resv_notice reservation_notice(const struct reservation *before,
					 const struct reservation *after, const uint8_t *actor,
					 unsigned index)
{
	const uint8_t *hostid = before->registrants[index].hostid;

	if (!memcmp(hostid, actor, HOSTID_BYTES))
		return NVME_RESV_NOTICE_NONE;
	if (!reservation_is_registered(after, hostid)) /* Clear leaves no registrant */
		return after->n ? NVME_RESV_REGISTRATION_PREEMPTED : NVME_RESV_PREEMPTED;
	/* If only the holder had access, its release concerns no other host; a new type does. */
	if (before->type && before->type != after->type &&
	    (after->type || !is_only_holder(before->type)))
		return NVME_RESV_RELEASED;
	return NVME_RESV_NOTICE_NONE;
}

/* ---- building the next state ---------------------------------------------------------------- */

/* A registrant without a known NQN gets the NQN of the host that acts with its identifier; and if
 * the identifier was bound to that host since, it replaces another NQN. */
static void name_registrant(struct reservation *next, const struct reservation_wish *wish)
{
	unsigned index;

	if (reservation_find(next, wish->hostid, &index) &&
	    (wish->is_id_bound || !*reservation_name_of(next, index)))
		strcpy(reservation_name(next, index), wish->hostnqn);
}

static enum nvme_status finish(struct reservation *next, enum nvme_status status,
			       const struct reservation_wish *wish, struct reservation **ret_next)
{
	if (status != NVME_OK) {
		free(next);
		return status | NVME_DNR;
	}
	/* Fields without a meaning have a fixed value, so a state equals its saved copy. */
	if (!reservation_has_holder(next->type))
		next->holder = 0;
	check(next->n <= next->room && (!next->type || next->holder < next->n));
	name_registrant(next, wish);
	*ret_next = next;
	return NVME_OK;
}

static enum nvme_status add(struct reservation *next, const uint8_t *hostid, uint64_t key)
{
	struct registrant *registrant = &next->registrants[next->n];

	if (next->n == REGISTRANTS_MAX)
		return NVME_RESERVATION_CONFLICT;
	check(next->n < next->room);
	memcpy(registrant->hostid, hostid, HOSTID_BYTES);
	registrant->key = key;
	*reservation_name(next, next->n) = '\0';
	next->n++;
	return NVME_OK;
}

static enum nvme_status set_persistence(struct reservation *next,
					const struct reservation_wish *wish)
{
	if (wish->cptpl == NVME_CPTPL_KEEP)
		return NVME_OK;
	if (wish->cptpl == 1 || (wish->cptpl == NVME_CPTPL_SET && !wish->can_persist))
		return NVME_INVALID_FIELD;
	next->is_persistent = wish->cptpl == NVME_CPTPL_SET;
	return NVME_OK;
}

enum nvme_status reservation_set_persistence(const struct reservation *now,
					     const struct reservation_wish *wish,
					     struct reservation **ret_next)
{
	struct reservation *next = reservation_copy(now);

	if (!next)
		return NVME_INTERNAL_ERROR;
	return finish(next, set_persistence(next, wish), wish, ret_next);
}

/* ---- Register ------------------------------------------------------------------------------- */

static enum nvme_status replace(struct reservation *next, const struct reservation_wish *wish,
				bool has_key)
{
	unsigned index = 0;
	struct registrant *own = own_of(next, wish->hostid, &index);

	if (!own && wish->ignores_key && wish->key)
		return add(next, wish->hostid, wish->key);
	if (!has_key)
		return NVME_RESERVATION_CONFLICT;
	/* Key 0 is no key: Linux ends a registration with it (linux/pr.h, IOC_PR_REGISTER). */
	if (wish->key)
		own->key = wish->key;
	else
		reservation_remove(next, index);
	return NVME_OK;
}

static enum nvme_status change_registration(struct reservation *next,
					    const struct reservation_wish *wish)
{
	unsigned index = 0;
	struct registrant *own = own_of(next, wish->hostid, &index);
	bool has_key = own && (wish->ignores_key || own->key == wish->crkey);

	switch (wish->action) {
	case NVME_RREGA_REGISTER:
		if (!wish->key)
			return NVME_INVALID_FIELD;
		if (own) /* registering again with the same key is legal */
			return own->key == wish->key ? NVME_OK : NVME_RESERVATION_CONFLICT;
		return add(next, wish->hostid, wish->key);
	case NVME_RREGA_UNREGISTER:
		if (!has_key)
			return NVME_RESERVATION_CONFLICT;
		reservation_remove(next, index);
		return NVME_OK;
	case NVME_RREGA_REPLACE:
		return replace(next, wish, has_key);
	default:
		return NVME_INVALID_FIELD;
	}
}

enum nvme_status reservation_register(const struct reservation *now,
				      const struct reservation_wish *wish,
				      struct reservation **ret_next)
{
	struct reservation *next = reservation_copy(now);
	enum nvme_status status;

	if (!next)
		return NVME_INTERNAL_ERROR;
	status = set_persistence(next, wish);
	if (status == NVME_OK)
		status = change_registration(next, wish);
	next->generation++;
	return finish(next, status, wish, ret_next);
}

/* ---- Acquire -------------------------------------------------------------------------------- */

static enum nvme_status acquire(struct reservation *next, unsigned own, unsigned type)
{
	if (next->type)
		return reservation_is_holder(next, own) && next->type == type
			       ? NVME_OK
			       : NVME_RESERVATION_CONFLICT;
	next->type = (uint8_t)type;
	next->holder = own;
	return NVME_OK;
}

/* Removes other registrants: those with this key or, with key 0, all. Returns their number. */
static unsigned remove_others(struct reservation *next, const uint8_t *hostid, uint64_t key)
{
	unsigned n = 0;

	for (unsigned i = next->n; i-- > 0;) {
		const struct registrant *other = &next->registrants[i];

		if (!memcmp(other->hostid, hostid, HOSTID_BYTES) || (key && other->key != key))
			continue;
		reservation_remove(next, i);
		n++;
	}
	return n;
}

/* The preempting host becomes the holder. */
static enum nvme_status take_over(struct reservation *next, const struct reservation_wish *wish)
{
	unsigned own = 0;

	next->type = NVME_RTYPE_NONE;
	remove_others(next, wish->hostid, wish->key);
	reservation_find(next, wish->hostid, &own);
	return acquire(next, own, wish->type);
}

static enum nvme_status preempt(struct reservation *next, unsigned own,
				const struct reservation_wish *wish)
{
	bool is_of_all = reservation_is_of_all(next->type);
	unsigned n_removed;

	if (!wish->key)
		return is_of_all ? take_over(next, wish) : NVME_INVALID_FIELD;
	if (reservation_has_holder(next->type) && wish->key == next->registrants[next->holder].key)
		return take_over(next, wish);
	n_removed = remove_others(next, wish->hostid, wish->key);
	return n_removed || wish->key == next->registrants[own].key ? NVME_OK
								    : NVME_RESERVATION_CONFLICT;
}

static enum nvme_status change_holder(struct reservation *next, const struct reservation_wish *wish)
{
	unsigned index = 0;
	struct registrant *own = own_of(next, wish->hostid, &index);

	if (wish->ignores_key || wish->action > NVME_RACQA_PREEMPT_ABORT ||
	    wish->type < NVME_RTYPE_WRITE_EXCLUSIVE || wish->type > NVME_RTYPE_EXCLUSIVE_ACCESS_ALL)
		return NVME_INVALID_FIELD;
	if (!own || own->key != wish->crkey)
		return NVME_RESERVATION_CONFLICT;
	if (wish->action == NVME_RACQA_ACQUIRE)
		return acquire(next, index, wish->type);
	next->generation++;
	return preempt(next, index, wish);
}

enum nvme_status reservation_acquire(const struct reservation *now,
				     const struct reservation_wish *wish,
				     struct reservation **ret_next)
{
	struct reservation *next = reservation_copy(now);

	if (!next)
		return NVME_INTERNAL_ERROR;
	return finish(next, change_holder(next, wish), wish, ret_next);
}

/* ---- Release -------------------------------------------------------------------------------- */

static enum nvme_status give_up(struct reservation *next, const struct reservation_wish *wish)
{
	unsigned index = 0;
	struct registrant *own = own_of(next, wish->hostid, &index);

	if (wish->ignores_key || wish->action > NVME_RRELA_CLEAR)
		return NVME_INVALID_FIELD;
	if (!own || own->key != wish->crkey)
		return NVME_RESERVATION_CONFLICT;
	if (wish->action == NVME_RRELA_CLEAR) {
		next->generation++;
		next->n = 0;
		next->type = NVME_RTYPE_NONE;
		return NVME_OK;
	}
	/* A registrant that is not the holder has nothing to release, which is legal. */
	if (!reservation_is_holder(next, index))
		return NVME_OK;
	if (next->type != wish->type)
		return NVME_INVALID_FIELD;
	next->type = NVME_RTYPE_NONE;
	return NVME_OK;
}

enum nvme_status reservation_release(const struct reservation *now,
				     const struct reservation_wish *wish,
				     struct reservation **ret_next)
{
	struct reservation *next = reservation_copy(now);

	if (!next)
		return NVME_INTERNAL_ERROR;
	return finish(next, give_up(next, wish), wish, ret_next);
}
