/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a guard keeps on disk, one file a namespace, named after its UUID:
 *
 *   {"version": 1, "write_protected": true, "uncorrectable": [[slba, blocks], ...],
 *    "reservation": {"type": 1, "holder": 0, "registrants": [{"host": hex, "key": hex}, ...]}}
 *
 * A namespace without anything to keep has no file. Numbers that need all 64 bits are strings.
 * guard_new.c reads it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "target/io/bad_blocks.h"
#include "target/controller.h"
#include "target/guard/guard_state.h"
#include "target/guard/reservation.h"

/* ---- to text -------------------------------------------------------------------------------- */

static struct json_object *hex_of(const uint8_t *bytes, unsigned n)
{
	char text[2 * HOSTID_BYTES + 1] = "";

	for (unsigned i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return json_object_new_string(text);
}

static struct json_object *registrant_to_json(const struct registrant *registrant)
{
	struct json_object *object = json_object_new_object();
	char key[20];

	snprintf(key, sizeof(key), "%" PRIx64, registrant->key);
	json_add(object, "host", hex_of(registrant->hostid, HOSTID_BYTES));
	json_add(object, "key", json_object_new_string(key));
	return object;
}

static struct json_object *reservation_to_json(const struct reservation *reservation)
{
	struct json_object *object = json_object_new_object();
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < reservation->n; i++)
		json_append(list, registrant_to_json(&reservation->registrants[i]));
	json_add(object, "type", json_object_new_int(reservation->type));
	json_add(object, "holder", json_object_new_int((int)reservation->holder));
	json_add(object, "registrants", list);
	return object;
}

static struct json_object *bad_blocks_to_json(const struct bad_blocks *set)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < set->n; i++) {
		struct json_object *range = json_object_new_array();

		json_append(range, json_object_new_int64((int64_t)set->ranges[i].slba));
		json_append(range,
			    json_object_new_int64((int64_t)set->ranges[i].n_blocks));
		json_append(list, range);
	}
	return list;
}

/* NULL when there is nothing to keep. */
static struct json_object *to_json(const struct guard *guard)
{
	const struct reservation *reservation = guard->next.reservation;
	const struct bad_blocks *bad = guard->next.bad_blocks;
	bool is_reserved = reservation && reservation->is_persistent;
	bool has_bad = bad && bad->n && !guard->is_volatile;
	bool is_protected = guard->next.write_protect == NVME_WP_PROTECTED;
	struct json_object *object;

	if (!is_reserved && !has_bad && !is_protected)
		return NULL;
	object = json_object_new_object();
	json_add(object, "version", json_object_new_int(GUARD_FORMAT));
	if (is_protected)
		json_add(object, "write_protected", json_object_new_boolean(true));
	if (has_bad)
		json_add(object, "uncorrectable", bad_blocks_to_json(bad));
	if (is_reserved)
		json_add(object, "reservation", reservation_to_json(reservation));
	return object;
}

/* ---- saving --------------------------------------------------------------------------------- */

void guard_begin_save(struct guard *guard)
{
	guard->next.reservation = atomic_load(&guard->reservation);
	guard->next.bad_blocks = atomic_load(&guard->bad_blocks);
	guard->next.write_protect = atomic_load(&guard->write_protect);
}

bool guard_visit_nobody(const struct request *owner, struct pass *pass)
{
	return false;
}

/* Worker thread; the turn keeps everything as it is. */
static int save(struct backend_io *io)
{
	const struct request *r = container_of(io, struct request, io);
	const struct guard *guard = r->pass.guard;
	char name[GUARD_NAME_BYTES];
	struct json_object *object;
	int error = -ENOMEM;
	const char *text;

	json_is_whole(); /* of what was made before, nobody wants to know */
	object = to_json(guard);
	text = object ? json_object_to_json_string(object) : NULL;
	guard_file_name(guard, name);
	if (json_is_whole() && (!object || json_is_text_of(text, object)))
		error = state_file_write(guard->directory, name, text,
					 text ? strlen(text) : 0);
	json_object_put(object);
	return error;
}

static void on_saved(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);

	if (error < 0)
		log_err("namespace %u: its state cannot be kept in %s: %s: the command "
			"that "
			"changes it is refused",
			r->ns->nsid, state_directory_path(r->pass.guard->directory),
			strerror(-error));
	r->on_saved(r, error);
}

void guard_save(struct request *r, bool is_skipped,
		void (*on_saved_of)(struct request *r, int error))
{
	if (is_skipped || !r->pass.guard->directory) {
		on_saved_of(r, 0);
		return;
	}
	r->on_saved = on_saved_of;
	r->io.done = on_saved;
	backend_run(r->queue->poller->backends, &r->io, save);
}
