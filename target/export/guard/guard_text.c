/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "target/export/bad_blocks.h"
#include "target/export/guard/guard_text.h"
#include "target/export/guard/guard_impl.h"
#include "target/export/guard/reservation.h"
#include "transport/wire/strings.h"

#define UNTIL_POWER_CYCLE "write_protected_until_power_cycle"

/* ---- to text -------------------------------------------------------------------------------- */

static struct json_object *hex_of(const uint8_t *bytes, unsigned n)
{
	char text[2 * HOSTID_BYTES + 1] = "";

	for (unsigned i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return json_object_new_string(text);
}

static struct json_object *registrant_to_json(const struct registrant *registrant,
					      const char *hostnqn)
{
	struct json_object *object = json_object_new_object();
	char key[20];

	snprintf(key, sizeof(key), "%" PRIx64, registrant->key);
	json_add(object, "host", hex_of(registrant->hostid, HOSTID_BYTES));
	json_add(object, "key", json_object_new_string(key));
	if (*hostnqn)
		json_add(object, "nqn", json_object_new_string(hostnqn));
	return object;
}

static struct json_object *reservation_to_json(struct reservation *reservation, bool has_all)
{
	struct json_object *object = json_object_new_object();
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < reservation->n; i++)
		json_append(list, registrant_to_json(&reservation->registrants[i],
						     reservation_name(reservation, i)));
	json_add(object, "type", json_object_new_int(reservation->type));
	json_add(object, "holder", json_object_new_int((int)reservation->holder));
	json_add(object, "registrants", list);
	if (has_all) {
		json_add(object, "generation", json_object_new_int64(reservation->generation));
		json_add(object, "persistent", json_object_new_boolean(reservation->is_persistent));
	}
	return object;
}

static struct json_object *bad_blocks_to_json(const struct bad_blocks *set)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < set->n; i++) {
		struct json_object *range = json_object_new_array();

		json_append(range, json_object_new_int64((int64_t)set->ranges[i].slba));
		json_append(range, json_object_new_int64((int64_t)set->ranges[i].n_blocks));
		json_append(list, range);
	}
	return list;
}

/* Which state: for the next start, or for a process that goes on with the medium as it is. */
enum extent {
	EXTENT_KEPT,
	EXTENT_ALL,
};

/* NULL: no state to save. */
static struct json_object *to_json(const struct guard *guard, const struct guard_kept *kept,
				   enum extent extent)
{
	struct reservation *reservation = kept->reservation;
	const struct bad_blocks *bad = kept->bad_blocks;
	bool is_all = extent == EXTENT_ALL;
	const char *boot_id = guard->store && !is_all ? guard->store->boot_id : NULL;
	bool has_all = is_all || guard_keeps_all(guard);
	bool is_reserved = reservation && (reservation->is_persistent || has_all);
	bool has_bad = bad && bad->n && (is_all || !guard->is_volatile);
	bool is_protected = kept->write_protect == NVME_WP_PROTECTED;
	bool is_until_power_cycle = (is_all || boot_id) &&
				    kept->write_protect == NVME_WP_UNTIL_POWER_CYCLE;
	struct json_object *object;

	if (!is_reserved && !has_bad && !is_protected && !is_until_power_cycle)
		return NULL;
	object = json_object_new_object();
	json_add(object, "version", json_object_new_int(GUARD_FORMAT));
	if (boot_id)
		json_add(object, "boot", json_object_new_string(boot_id));
	if (is_protected)
		json_add(object, "write_protected", json_object_new_boolean(true));
	if (is_until_power_cycle)
		json_add(object, UNTIL_POWER_CYCLE, json_object_new_boolean(true));
	if (has_bad)
		json_add(object, "uncorrectable", bad_blocks_to_json(bad));
	if (is_reserved)
		json_add(object, "reservation", reservation_to_json(reservation, has_all));
	return object;
}

static int format(const struct guard *guard, const struct guard_kept *kept, enum extent extent,
		  char **ret_text)
{
	struct json_object *object;
	const char *text;
	bool is_whole;

	*ret_text = NULL;
	json_is_whole(); /* resets its flag: earlier texts do not count */
	object = to_json(guard, kept, extent);
	text = object ? json_object_to_json_string(object) : NULL;
	is_whole = json_is_whole() && (!object || json_is_text_of(text, object));
	if (is_whole && text) {
		*ret_text = strdup(text);
		is_whole = *ret_text;
	}
	json_object_put(object);
	return is_whole ? 0 : -ENOMEM;
}

int guard_format(const struct guard *guard, const struct guard_kept *kept, char **ret_text)
{
	return format(guard, kept, EXTENT_KEPT, ret_text);
}

int guard_format_all(const struct guard *guard, const struct guard_kept *kept, char **ret_text)
{
	return format(guard, kept, EXTENT_ALL, ret_text);
}

/* ---- from text ------------------------------------------------------------------------------ */

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

/* A key that may be missing; *ret_value is NULL then. False: its value has another type. */
static bool get_optional(struct json_object *object, const char *key, json_type type,
			 struct json_object **ret_value)
{
	*ret_value = NULL;
	return !json_object_object_get_ex(object, key, ret_value) ||
	       json_object_is_type(*ret_value, type);
}

/* The default where there is none. False: it is no generation. */
static bool get_generation(struct json_object *object, uint32_t *ret_generation)
{
	struct json_object *value;
	int64_t n;

	if (!get_optional(object, "generation", json_type_int, &value))
		return false;
	n = value ? json_object_get_int64(value) : 0;
	*ret_generation = (uint32_t)n;
	return n >= 0 && n <= UINT32_MAX;
}

/* With its NUL it must be legal as an NQN field of Connect. */
static bool get_name(struct json_object *object, char ret_nqn[NVMF_NQN_MAX + 1])
{
	size_t n = (size_t)json_object_get_string_len(object) + 1;
	const char *text = json_object_get_string(object);

	return strlen(text) + 1 == n && hostnqn_from_field((const uint8_t *)text, n, ret_nqn) == 0;
}

static bool get_registrant(struct json_object *object, struct registrant *ret_registrant,
			   char ret_nqn[NVMF_NQN_MAX + 1])
{
	struct json_object *host, *key, *nqn;

	return json_object_is_type(object, json_type_object) &&
	       json_get(object, "host", json_type_string, &host) &&
	       json_get(object, "key", json_type_string, &key) &&
	       get_hostid(host, ret_registrant->hostid) && get_key(key, &ret_registrant->key) &&
	       (!json_object_object_get_ex(object, "nqn", &nqn) ||
		(json_object_is_type(nqn, json_type_string) && get_name(nqn, ret_nqn)));
}

/* Reads the next one; no host is registered twice. */
static bool add_registrant(struct reservation *reservation, struct json_object *object)
{
	struct registrant *registrant = &reservation->registrants[reservation->n];
	unsigned index;

	return get_registrant(object, registrant, reservation_name(reservation, reservation->n)) &&
	       !reservation_find(reservation, registrant->hostid, &index);
}

static struct reservation *get_reservation(struct json_object *object)
{
	struct json_object *type, *holder, *list, *persistent;
	struct reservation *reservation;
	uint32_t generation;
	bool has_holder;
	size_t n;

	if (!json_get(object, "type", json_type_int, &type) ||
	    !json_get(object, "holder", json_type_int, &holder) ||
	    !json_get(object, "registrants", json_type_array, &list) ||
	    !get_optional(object, "persistent", json_type_boolean, &persistent) ||
	    !get_generation(object, &generation))
		return NULL;
	n = json_object_array_length(list);
	if (n > REGISTRANTS_MAX || json_object_get_int64(type) < NVME_RTYPE_NONE ||
	    json_object_get_int64(type) > NVME_RTYPE_EXCLUSIVE_ACCESS_ALL ||
	    (json_object_get_int64(type) && !n))
		return NULL;
	has_holder = reservation_has_holder((unsigned)json_object_get_int(type));
	/* Without a reservation the number is meaningless; an earlier rblkd kept an old one. */
	if (has_holder &&
	    (json_object_get_int64(holder) < 0 || (size_t)json_object_get_int64(holder) >= n))
		return NULL;
	reservation = reservation_new((unsigned)n);
	if (!reservation)
		return NULL;
	reservation->type = (uint8_t)json_object_get_int(type);
	reservation->holder = has_holder ? (unsigned)json_object_get_int(holder) : 0;
	reservation->generation = generation;
	reservation->is_persistent = !persistent || json_object_get_boolean(persistent);
	for (; reservation->n < n; reservation->n++)
		if (!add_registrant(reservation, json_object_array_get_idx(list, reservation->n))) {
			free(reservation);
			return NULL;
		}
	return reservation;
}

static bool get_range(struct json_object *pair, uint64_t *ret_slba, uint64_t *ret_n)
{
	int64_t slba, n;

	if (!json_object_is_type(pair, json_type_array) || json_object_array_length(pair) != 2)
		return false;
	slba = json_object_get_int64(json_object_array_get_idx(pair, 0));
	n = json_object_get_int64(json_object_array_get_idx(pair, 1));
	*ret_slba = (uint64_t)slba;
	*ret_n = (uint64_t)n;
	return slba >= 0 && n > 0 && slba <= INT64_MAX - n;
}

/* The ranges must be sorted and apart, as they are in memory. */
static struct bad_blocks *get_bad_blocks(struct json_object *list)
{
	size_t n = json_object_array_length(list);
	struct bad_blocks *set = calloc(1, sizeof(*set) + n * sizeof(set->ranges[0]));
	uint64_t end = 0;

	for (size_t i = 0; set && i < n; i++) {
		struct bad_range *range = &set->ranges[set->n++];

		if (!get_range(json_object_array_get_idx(list, i), &range->slba,
			       &range->n_blocks) ||
		    (i && range->slba <= end)) {
			free(set);
			return NULL;
		}
		end = range->slba + range->n_blocks;
	}
	return set;
}

/* When it fails, *kept holds what it has read. */
static bool read_object(struct json_object *object, struct guard_kept *kept)
{
	struct json_object *version, *is_protected, *until_power_cycle, *bad, *reservation;

	if (!json_get(object, "version", json_type_int, &version) ||
	    json_object_get_int(version) != GUARD_FORMAT)
		return false;
	if (!get_optional(object, "write_protected", json_type_boolean, &is_protected) ||
	    !get_optional(object, UNTIL_POWER_CYCLE, json_type_boolean, &until_power_cycle) ||
	    !get_optional(object, "uncorrectable", json_type_array, &bad) ||
	    !get_optional(object, "reservation", json_type_object, &reservation))
		return false;
	if (is_protected && json_object_get_boolean(is_protected))
		kept->write_protect = NVME_WP_PROTECTED;
	if (until_power_cycle && json_object_get_boolean(until_power_cycle))
		kept->write_protect = NVME_WP_UNTIL_POWER_CYCLE;
	if (bad && !(kept->bad_blocks = get_bad_blocks(bad)))
		return false;
	return !reservation || (kept->reservation = get_reservation(reservation));
}

/* The record is of another boot of the machine, or of one that is not known. */
static bool is_before_power(struct json_object *object, const char *boot_id)
{
	struct json_object *boot;

	return !*boot_id || !json_get(object, "boot", json_type_string, &boot) ||
	       strcmp(json_object_get_string(boot), boot_id) != 0;
}

/* Keeps what a loss of power does not end. */
static void lose_power(struct guard_kept *kept)
{
	if (kept->write_protect == NVME_WP_UNTIL_POWER_CYCLE)
		kept->write_protect = NVME_WP_NONE;
	if (!kept->reservation || kept->reservation->is_persistent)
		return;
	free(kept->reservation);
	kept->reservation = NULL;
}

int guard_read(const char *text, const char *boot_id, struct guard_kept *ret_kept)
{
	struct json_object *object;
	int r = json_parse(text, &object);

	*ret_kept = (struct guard_kept){.write_protect = NVME_WP_NONE};
	errno = 0;
	if (r == 0 &&
	    !(json_object_is_type(object, json_type_object) && read_object(object, ret_kept)))
		r = errno == ENOMEM ? -ENOMEM : -EINVAL;
	if (r == 0 && boot_id && is_before_power(object, boot_id))
		lose_power(ret_kept);
	json_object_put(object);
	if (r < 0) {
		free(ret_kept->reservation);
		free(ret_kept->bad_blocks);
		*ret_kept = (struct guard_kept){.write_protect = NVME_WP_NONE};
	}
	return r;
}
