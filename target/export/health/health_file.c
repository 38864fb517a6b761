/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/error.h"
#include "base/json.h"
#include "target/export/health/health_file.h"
#include "target/export/health/health_impl.h"
#include "target/export/health/record.h"
#include "target/export/state_file.h"

/* No real count comes near this bound, and a sum of two cannot wrap. */
static const uint64_t number_max = INT64_MAX / 4 - 1;

/* The numbers of a record, by their names in the file. */
static const struct {
	const char *key;
	size_t offset; /* in struct health_figures */
	bool is_optional;
} numbers[] = {
	{"power_cycles", offsetof(struct health_figures, power_cycles)},
	{"unsafe_shutdowns", offsetof(struct health_figures, unsafe_shutdowns)},
	{"power_on_seconds", offsetof(struct health_figures, power_on_s)},
	{"reads", offsetof(struct health_figures, n_reads)},
	{"writes", offsetof(struct health_figures, n_writes)},
	{"read_units", offsetof(struct health_figures, read_units)},
	{"written_units", offsetof(struct health_figures, written_units)},
	{"media_errors", offsetof(struct health_figures, n_media_errors)},
	{"errors", offsetof(struct health_figures, n_errors)},
	{"crashes", offsetof(struct health_figures, crashes), .is_optional = true},
};

static uint64_t *number_in(struct health_figures *figures, unsigned i)
{
	return (uint64_t *)(void *)((char *)figures + numbers[i].offset);
}

/* ---- to text -------------------------------------------------------------------------------- */

/* Whether a start that finds the record so counts an end that was not in order. */
static bool is_left_on(const struct health_record *record)
{
	return record->state == HEALTH_ON || record->state == HEALTH_LEFT_ON ||
	       record->has_lost_writes;
}

static struct json_object *record_to_json(struct health_record *record)
{
	struct json_object *object = json_object_new_object();
	struct health_figures figures;

	health_read(record, &figures);
	json_add(object, "nqn", json_object_new_string(record->nqn));
	json_add(object, "is_on", json_object_new_boolean(is_left_on(record)));
	json_add(object, "boot_id", json_object_new_string(record->boot_id));
	for (unsigned i = 0; i < ARRAY_LEN(numbers); i++)
		json_add(object, numbers[i].key,
			 json_object_new_int64((int64_t)MIN(*number_in(&figures, i), number_max)));
	return object;
}

/* Subsystems that are on; or those that were on and no longer are. */
static void append_records(struct health *health, bool is_on, struct json_object *list)
{
	list_for_each (node, &health->records) {
		struct health_record *record = list_entry(node, struct health_record, node);

		if ((record->state == HEALTH_ON) == is_on && record->past.power_cycles &&
		    json_object_array_length(list) < HEALTH_RECORDS_MAX)
			json_append(list, record_to_json(record));
	}
}

char *health_format(struct health *health)
{
	struct json_object *object = json_object_new_object();
	struct json_object *list = json_object_new_array();
	const char *text;
	char *copy = NULL;

	json_is_whole(); /* resets its flag: earlier texts do not count */
	if (list) {
		append_records(health, true, list);
		append_records(health, false, list);
	}
	json_add(object, "version", json_object_new_int(HEALTH_FORMAT));
	json_add(object, "subsystems", list);
	text = json_is_whole() && object ? json_object_to_json_string(object) : NULL;
	if (text && json_is_text_of(text, object))
		copy = strdup(text);
	json_object_put(object);
	return copy;
}

/* ---- from text ------------------------------------------------------------------------------ */

static bool get(struct json_object *object, const char *key, json_type type,
		struct json_object **ret_value)
{
	return json_object_object_get_ex(object, key, ret_value) &&
	       json_object_is_type(*ret_value, type);
}

static bool get_number(struct json_object *object, const char *key, bool is_optional,
		       uint64_t *ret_number)
{
	struct json_object *value;
	int64_t n;

	*ret_number = 0;
	if (is_optional && !json_object_object_get_ex(object, key, NULL))
		return true;
	if (!get(object, key, json_type_int, &value))
		return false;
	n = json_object_get_int64(value);
	*ret_number = (uint64_t)n;
	return n >= 0 && *ret_number <= number_max;
}

/* "" if the file has none. */
static bool get_boot_id(struct json_object *object, char ret_id[HEALTH_BOOT_BYTES])
{
	struct json_object *value;

	*ret_id = '\0';
	if (!json_object_object_get_ex(object, "boot_id", NULL))
		return true;
	if (!get(object, "boot_id", json_type_string, &value) ||
	    json_object_get_string_len(value) >= HEALTH_BOOT_BYTES)
		return false;
	snprintf(ret_id, HEALTH_BOOT_BYTES, "%s", json_object_get_string(value));
	return true;
}

static bool is_known(const struct health *health, const char *nqn)
{
	list_for_each (node, &health->records)
		if (!strcmp(list_entry(node, struct health_record, node)->nqn, nqn))
			return true;
	return false;
}

/* -EINVAL: rblkd never writes this. */
static int take_record(struct health *health, struct json_object *object)
{
	struct health_figures figures;
	struct json_object *nqn, *is_on;
	struct health_record *record;
	char boot_id[HEALTH_BOOT_BYTES];

	if (!json_object_is_type(object, json_type_object) ||
	    !get(object, "nqn", json_type_string, &nqn) ||
	    !get(object, "is_on", json_type_boolean, &is_on) || !get_boot_id(object, boot_id) ||
	    (size_t)json_object_get_string_len(nqn) != strlen(json_object_get_string(nqn)) ||
	    !*json_object_get_string(nqn) || json_object_get_string_len(nqn) > NVMF_NQN_MAX ||
	    is_known(health, json_object_get_string(nqn)))
		return -EINVAL;
	for (unsigned i = 0; i < ARRAY_LEN(numbers); i++)
		if (!get_number(object, numbers[i].key, numbers[i].is_optional,
				number_in(&figures, i)))
			return -EINVAL;
	record = health_find(health, json_object_get_string(nqn));
	if (!record)
		return -ENOMEM;
	atomic_init(&record->n_errors, figures.n_errors);
	figures.n_errors = 0;
	record->past = figures;
	memcpy(record->boot_id, boot_id, sizeof(record->boot_id));
	record->state = json_object_get_boolean(is_on) ? HEALTH_LEFT_ON : HEALTH_NEW;
	return 0;
}

static int take_over(struct health *health, struct json_object *object)
{
	struct json_object *version, *list;
	int r = 0;

	if (!json_object_is_type(object, json_type_object) ||
	    !get(object, "version", json_type_int, &version) ||
	    json_object_get_int64(version) != HEALTH_FORMAT ||
	    !get(object, "subsystems", json_type_array, &list) ||
	    json_object_array_length(list) > HEALTH_RECORDS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < json_object_array_length(list) && r == 0; i++)
		r = take_record(health, json_object_array_get_idx(list, i));
	return r;
}

int health_load(struct health *health, struct error *error)
{
	struct json_object *object;
	char *text;
	int r = state_file_read(health->directory, HEALTH_FILE, &text);

	if (r < 0)
		error_refuse(error, r, "cannot read %s/%s: %s",
			     state_directory_path(health->directory), HEALTH_FILE, strerror(-r));
	if (r < 0 || !text)
		return r;
	r = json_parse(text, &object);
	free(text);
	if (r == 0)
		r = take_over(health, object);
	json_object_put(object);
	if (r < 0 && r != -EINVAL)
		error_refuse(error, r, "out of memory");
	return r == -EINVAL ? -EUCLEAN : r;
}
