/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saves a guard's state, and reads it at the next start. guard_text.c has the format.
 *
 * A change that cannot be saved is refused, so the file must then hold the state from before. If
 * the new file is in place and only the sync of the directory fails, the old contents are written
 * once more. If that fails too, the file may be either one. is_unkept is then set until a write
 * succeeds: with the next change, or at the end of rblkd.
 *
 * A damaged file stops the start: serving a namespace without the reservation that protects it
 * would be worse.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "target/export/guard/guard_state.h"

void guard_file_name(const struct guard *guard, char name[GUARD_NAME_BYTES])
{
	char uuid[UUID_STR_LEN];

	uuid_unparse_lower(guard->uuid, uuid);
	snprintf(name, GUARD_NAME_BYTES, "%s.json", uuid);
}

static struct guard_kept valid(struct guard *guard)
{
	return (struct guard_kept){
		.reservation = atomic_load(&guard->reservation),
		.bad_blocks = atomic_load(&guard->bad_blocks),
		.write_protect = atomic_load(&guard->write_protect),
	};
}

void guard_begin_save(struct guard *guard)
{
	check(guard->owner); /* the turn keeps the state as it is */
	guard->next = valid(guard);
}

static int write_file(struct guard *guard, const struct guard_kept *kept, bool *ret_is_old)
{
	char name[GUARD_NAME_BYTES], *text;
	int r = guard_format(guard, kept, &text);

	*ret_is_old = true;
	guard_file_name(guard, name);
	if (r == 0)
		r = state_file_write(guard->directory, name, text, text ? strlen(text) : 0,
				     ret_is_old);
	free(text);
	return r;
}

/* Logs the failure once, and its end once. */
static void note(struct guard *guard, int error)
{
	const char *path = state_directory_path(guard->directory);
	char name[GUARD_NAME_BYTES];
	bool is_unkept = error < 0;

	if (atomic_exchange(&guard->is_unkept, is_unkept) == is_unkept)
		return;
	guard_file_name(guard, name);
	if (is_unkept)
		log_err("%s/%s: it may hold what a command was refused, and cannot be put back: %s: after a crash the refused may be valid; set the directory right, then restart rblkd in order",
			path, name, strerror(-error));
	else
		log_info("%s/%s: it holds what is valid again", path, name);
}

/* Writes the current state, so that the contents of the file are known again. The turn keeps the
 * state as it is. */
static int put_back(struct guard *guard)
{
	struct guard_kept kept = valid(guard);
	bool is_old;
	int r = write_file(guard, &kept, &is_old);

	note(guard, r);
	return r;
}

/* Worker thread; the turn keeps the state as it is. */
static int save(struct backend_io *io)
{
	struct guard *guard = container_of(io, struct guard, save);
	bool is_old;
	int error = write_file(guard, &guard->next, &is_old);

	if (error == 0)
		note(guard, 0);
	else if (!is_old)
		put_back(guard);
	return error;
}

static void on_saved(struct backend_io *io, int error)
{
	struct guard *guard = container_of(io, struct guard, save);

	guard->on_saved(guard->owner, error);
}

void guard_save(struct pass *owner, bool is_skipped, void (*on_saved_of)(struct pass *, int))
{
	struct guard *guard = owner->guard;

	check(guard->owner == owner);
	if (!guard->directory || (is_skipped && !atomic_load(&guard->is_unkept))) {
		on_saved_of(owner, 0);
		return;
	}
	guard->on_saved = on_saved_of;
	guard->save.done = on_saved;
	backend_run(owner->client->backends, &guard->save, save);
}

/* ---- control --------------------------------------------------------------------------------- */

void guard_settle(struct guard *guard)
{
	int r = atomic_load(&guard->is_unkept) ? put_back(guard) : 0;
	char name[GUARD_NAME_BYTES];

	guard_file_name(guard, name);
	if (r < 0)
		log_err("%s/%s: still cannot be written: %s: the next start may find what a command was refused",
			state_directory_path(guard->directory), name, strerror(-r));
}

int guard_load(struct guard *guard, struct error *error)
{
	char name[GUARD_NAME_BYTES], *text;
	int r = 0;

	if (!guard->directory)
		return 0;
	guard_file_name(guard, name);
	r = state_file_read(guard->directory, name, &text);
	if (r < 0)
		error_refuse(error, r, "cannot read %s/%s: %s",
			     state_directory_path(guard->directory), name, strerror(-r));
	if (r < 0 || !text)
		return r;
	r = guard_parse(guard, text);
	if (r == -ENOMEM)
		error_refuse(error, r, "cannot read %s/%s: out of memory",
			     state_directory_path(guard->directory), name);
	else if (r < 0)
		error_refuse(
			error, -EINVAL,
			"%s/%s is damaged: it holds this namespace's reservations; remove it to serve the namespace without them",
			state_directory_path(guard->directory), name);
	free(text);
	return r;
}
