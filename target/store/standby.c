/* SPDX-License-Identifier: BSD-3-Clause */
/* See standby.h. */
#include <errno.h>
#include <stdlib.h>

#include "target/store/standby.h"
#include "target/store/step.h"
#include "target/store/thread.h"

struct standby {
	/* Thread: control, except what backend.h gives to the pollers */
	struct backend backend;
};

static void standby_close(struct backend *backend)
{
	if (backend)
		free(container_of(backend, struct standby, backend));
}

/* The owner has another state of the group by now, or will have: the host tries again. */
static void standby_submit(struct backend *backend, struct backend_thread *thread,
			   struct backend_io *io)
{
	backend_take(backend, thread, io);
	backend_skip(io, -EAGAIN);
}

/* The owner makes the store larger: here is only what hosts see. */
static int standby_resize(struct backend *backend, uint64_t size_bytes, struct error *error)
{
	if (size_bytes)
		backend->limits.size_bytes = size_bytes;
	return 0;
}

static const struct backend_ops ops = {
	.name = "standby",
	.close = standby_close,
	.submit = standby_submit,
	.resize = standby_resize,
};

/* Others that write are not known, and a cache may be there: hosts flush an unknown one. */
static struct backend *new_standby(const struct backend_limits *limits)
{
	struct standby *standby = calloc(1, sizeof(*standby));

	if (!standby)
		return NULL;
	standby->backend.ops = &ops;
	standby->backend.limits = *limits;
	standby->backend.limits.others = OTHERS_ANY;
	standby->backend.limits.durability = DURABILITY_UNKNOWN;
	standby->backend.limits.has_volatile_cache = true;
	return &standby->backend;
}

int backend_stand_by(const struct backend_ops *of, const struct backend_config *config,
		     struct backend **ret_backend, struct error *error)
{
	struct backend_limits limits = {.is_read_only = config->is_read_only};
	int r = of->look(config, &limits, error);

	if (r < 0)
		return r;
	*ret_backend = new_standby(&limits);
	return *ret_backend ? 0 : error_refuse(error, -ENOMEM, "out of memory");
}

struct backend *backend_stand_by_after(const struct backend *owned)
{
	return new_standby(&owned->limits);
}

bool backend_stands_by(const struct backend *backend)
{
	return backend->ops == &ops;
}
