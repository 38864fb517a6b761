/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a guard comes to life, with what was kept of the last one (guard_state.c writes it). Control
 * thread, before anybody enters.
 *
 * A file that is not as we write it stops the start: to serve a namespace without the reservation
 * that protects it would be worse.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "target/io/bad_blocks.h"
#include "target/guard/guard_state.h"
#include "target/guard/reservation.h"
#include "target/subsystem.h"

static_assert((int)GUARD_POLLERS == (int)POLLERS_MAX, "a part for each poller");

/* ---- life ----------------------------------------------------------------------------------- */

struct guard *guard_new(const uuid_t uuid, struct state_directory *directory,
			bool is_volatile)
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

void guard_file_name(const struct guard *guard, char name[GUARD_NAME_BYTES])
{
	char uuid[UUID_STR_LEN];

	uuid_unparse_lower(guard->uuid, uuid);
	snprintf(name, GUARD_NAME_BYTES, "%s.json", uuid);
}

/* ---- from text ------------------------------------------------------------------------------ */

static bool get(struct json_object *object, const char *key, json_type type,
		struct json_object **ret_value)
{
	return json_object_object_get_ex(object, key, ret_value) &&
	       json_object_is_type(*ret_value, type);
}

static bool get_hostid(struct json_object *object, uint8_t *ret_hostid)
{
	const char *text = json_object_get_string(object);

	if (strlen(text) != 2 * HOSTID_BYTES ||
	    strspn(text, "0123456789abcdef") != 2 * HOSTID_BYTES)
		return false;
	for (unsigned i = 0; i < HOSTID_BYTES; i++)
		sscanf(text + 2 * i, "%2hhx", &ret_hostid[i]);
	return true;
}

static bool get_key(struct json_object *object, uint64_t *ret_key)
{
	const char *text = json_object_get_string(object);
	char *end;

	errno = 0;
	*ret_key = strtoull(text, &end, 16);
	return !errno && end > text && !*end && *ret_key;
}

static bool get_registrant(struct json_object *object, struct registrant *ret_registrant)
{
	struct json_object *host, *key;

	return json_object_is_type(object, json_type_object) &&
	       get(object, "host", json_type_string, &host) &&
	       get(object, "key", json_type_string, &key) &&
	       get_hostid(host, ret_registrant->hostid) &&
	       get_key(key, &ret_registrant->key);
}

static struct reservation *get_reservation(struct json_object *object)
{
	struct json_object *type, *holder, *list;
	struct reservation *reservation;
	size_t n;

	if (!get(object, "type", json_type_int, &type) ||
	    !get(object, "holder", json_type_int, &holder) ||
	    !get(object, "registrants", json_type_array, &list))
		return NULL;
	n = json_object_array_length(list);
	if (n > REGISTRANTS_MAX || json_object_get_int64(type) < NVME_RTYPE_NONE ||
	    json_object_get_int64(type) > NVME_RTYPE_EXCLUSIVE_ACCESS_ALL ||
	    json_object_get_int64(holder) < 0 ||
	    (json_object_get_int64(type) && (size_t)json_object_get_int64(holder) >= n))
		return NULL;
	reservation = calloc(1, sizeof(*reservation) +
					(n + 1) * sizeof(reservation->registrants[0]));
	if (!reservation)
		return NULL;
	reservation->type = (uint8_t)json_object_get_int(type);
	reservation->holder = (unsigned)json_object_get_int(holder);
	reservation->is_persistent = true;
	for (; reservation->n < n; reservation->n++)
		if (!get_registrant(json_object_array_get_idx(list, reservation->n),
				    &reservation->registrants[reservation->n])) {
			free(reservation);
			return NULL;
		}
	return reservation;
}

static bool get_range(struct json_object *pair, uint64_t *ret_slba, uint64_t *ret_n)
{
	int64_t slba, n;

	if (!json_object_is_type(pair, json_type_array) ||
	    json_object_array_length(pair) != 2)
		return false;
	slba = json_object_get_int64(json_object_array_get_idx(pair, 0));
	n = json_object_get_int64(json_object_array_get_idx(pair, 1));
	*ret_slba = (uint64_t)slba;
	*ret_n = (uint64_t)n;
	return slba >= 0 && n > 0 && slba <= INT64_MAX - n;
}

static struct bad_blocks *get_bad_blocks(struct json_object *list)
{
	struct bad_blocks *set = NULL;
	uint64_t slba, n;

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct bad_blocks *before = set;

		if (!get_range(json_object_array_get_idx(list, i), &slba, &n) ||
		    i > BAD_RANGES_MAX) {
			free(set);
			return NULL;
		}
		set = bad_blocks_add(before, slba, n);
		free(before);
		if (!set)
			return NULL;
	}
	return set;
}

/* ---- loading -------------------------------------------------------------------------------- */

static bool take_over(struct guard *guard, struct json_object *object)
{
	struct json_object *value;
	struct reservation *reservation;
	struct bad_blocks *bad;

	if (!get(object, "version", json_type_int, &value) ||
	    json_object_get_int(value) != GUARD_FORMAT)
		return false;
	if (get(object, "write_protected", json_type_boolean, &value) &&
	    json_object_get_boolean(value)) {
		atomic_store(&guard->write_protect, NVME_WP_PROTECTED);
		guard_set_flag(guard, GUARD_PROTECTED, true);
	}
	if (get(object, "uncorrectable", json_type_array, &value)) {
		bad = get_bad_blocks(value);
		if (!bad)
			return false;
		atomic_store(&guard->bad_blocks, bad);
		guard_set_flag(guard, GUARD_BAD_BLOCKS, true);
	}
	if (get(object, "reservation", json_type_object, &value)) {
		reservation = get_reservation(value);
		if (!reservation)
			return false;
		atomic_store(&guard->reservation, reservation);
		guard_set_flag(guard, GUARD_RESERVED, reservation->type);
	}
	return true;
}

int guard_load(struct guard *guard, char *why, size_t n)
{
	struct json_object *object;
	char name[GUARD_NAME_BYTES], *text;
	int r = 0;

	if (!guard->directory)
		return 0;
	guard_file_name(guard, name);
	r = state_file_read(guard->directory, name, &text);
	if (r < 0)
		snprintf(why, n, "cannot read %s/%s: %s",
			 state_directory_path(guard->directory), name, strerror(-r));
	if (r < 0 || !text)
		return r;
	object = json_tokener_parse(text);
	free(text);
	if (!object || !json_object_is_type(object, json_type_object) ||
	    !take_over(guard, object)) {
		snprintf(why, n,
			 "%s/%s is damaged: it holds this namespace's reservations; "
			 "remove "
			 "it to serve the namespace without them",
			 state_directory_path(guard->directory), name);
		r = -EINVAL;
	}
	json_object_put(object);
	return r;
}
