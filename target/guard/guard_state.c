/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes what a guard keeps durable; guard_text.c says what that is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "target/controller.h"
#include "target/guard/guard_state.h"

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
	char name[GUARD_NAME_BYTES], *text;
	int error = guard_format(guard, &text);

	guard_file_name(guard, name);
	if (error == 0)
		error = state_file_write(guard->directory, name, text,
					 text ? strlen(text) : 0);
	free(text);
	return error;
}

static void on_saved(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);

	if (error < 0)
		log_err("namespace %u: its state cannot be kept in %s: %s: the command "
			"that changes it is refused",
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
