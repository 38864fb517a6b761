/* SPDX-License-Identifier: BSD-3-Clause */
/* See grow.h. */
#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "target/store/grow.h"

static struct {
	void (*call)(void *context);
	void *context;
} on_change;

void backend_on_change(void (*call)(void *context), void *context)
{
	on_change.call = call;
	on_change.context = context;
}

void backend_changed(struct backend *backend)
{
	atomic_store(&backend->has_changed, true);
	if (on_change.call)
		on_change.call(on_change.context);
}

void backend_keep_grown(struct backend *backend)
{
	backend->is_created = false;
	backend->grown_from = backend->grown_to = 0;
}

bool backend_undo_grow(struct backend *backend)
{
	struct error error;
	char was[UNITS_MAX], had[UNITS_MAX];
	int r;

	if (!backend->grown_to)
		return true;
	check(backend->grown_from < backend->grown_to);
	r = backend->ops->undo_grow(backend, &error);
	if (r < 0)
		log_warn("%s", error.message);
	else
		log_info("%s: back from %s to %s, as nothing was changed", backend->ops->name,
			 units_format_exact(had, backend->grown_to),
			 units_format_exact(was, backend->grown_from));
	backend->grown_from = backend->grown_to = 0;
	return r == 0;
}
