/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes what a guard keeps durable; guard_text.c says what that is.
 *
 * A change that cannot be kept is refused, so the file has to say what was valid before. When the new
 * file is in place and only the directory could not be synced, the old one is written once more. If
 * that fails, too, the file is one of both, and is_unkept says so until it can be written: by the next
 * change, or when rblkd ends.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "target/engine/controller.h"
#include "target/export/guard/guard_state.h"

enum {
	COMPLAINTS_BURST = 5,
};

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
	guard->next = valid(guard);
}

bool guard_visit_nobody(const struct request *owner, struct pass *pass)
{
	return false;
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

/* Says it once, and once that it is over. */
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

/* What is valid, so that the file is known again. Nothing changes it meanwhile. */
static int put_back(struct guard *guard)
{
	struct guard_kept kept = valid(guard);
	bool is_old;
	int r = write_file(guard, &kept, &is_old);

	note(guard, r);
	return r;
}

/* Worker thread; the turn keeps everything as it is. */
static int save(struct backend_io *io)
{
	struct guard *guard = container_of(io, struct request, io)->pass.guard;
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
	struct request *r = container_of(io, struct request, io);

	if (error < 0 && log_limit_pass(&r->queue->poller->complaints, COMPLAINTS_BURST))
		log_err("namespace %u: its state cannot be kept in %s: %s: the command that changes it is refused",
			r->ns->nsid, state_directory_path(r->pass.guard->directory),
			strerror(-error));
	r->on_saved(r, error);
}

void guard_settle(struct guard *guard)
{
	int r = atomic_load(&guard->is_unkept) ? put_back(guard) : 0;
	char name[GUARD_NAME_BYTES];

	guard_file_name(guard, name);
	if (r < 0)
		log_err("%s/%s: still cannot be written: %s: the next start may find what a command was refused",
			state_directory_path(guard->directory), name, strerror(-r));
}

void guard_save(struct request *r, bool is_skipped,
		void (*on_saved_of)(struct request *r, int error))
{
	const struct guard *guard = r->pass.guard;

	if (!guard->directory || (is_skipped && !atomic_load(&guard->is_unkept))) {
		on_saved_of(r, 0);
		return;
	}
	r->on_saved = on_saved_of;
	r->io.done = on_saved;
	backend_run(r->queue->poller->backends, &r->io, save);
}
