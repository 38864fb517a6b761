/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes the size of a namespace in use; see namespace_size.h.
 *
 * It stays the same object with the same backend, and only the number of its blocks changes, so no
 * new snapshot is needed. The backing store is larger before that number is published. Commands
 * that were checked against the old number continue. Only an administrator can force a smaller one;
 * then commands may fail at the backing store.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/units.h"
#include "target/store/grow.h"
#include "target/export/namespace_size.h"
#include "target/export/io_errors.h"

uint64_t namespace_bytes(const struct namespace *ns)
{
	return ns->n_blocks << ns->block_shift;
}

static const char *name_of(const struct namespace *ns)
{
	return ns->path ? ns->path : ns->kind;
}

static int check_size(const struct namespace *ns, uint64_t size, bool may_shrink,
		      struct error *error)
{
	char was[UNITS_MAX], is[UNITS_MAX];

	if (size & ((1U << ns->block_shift) - 1) || !size)
		return error_refuse(error, -EINVAL,
				    "%s: %" PRIu64 " bytes is not a multiple of block_size %u",
				    name_of(ns), size, 1U << ns->block_shift);
	if (size < namespace_bytes(ns) && !may_shrink)
		return error_refuse(error, -EBUSY, "%s: %s is less than the %s that hosts use",
				    name_of(ns), units_format_exact(is, size),
				    units_format_exact(was, namespace_bytes(ns)));
	return 0;
}

int namespace_prepare_size(struct namespace *ns, uint64_t size_bytes, bool may_shrink,
			   struct error *error)
{
	struct backend *backend = ns->backend;
	int r = size_bytes ? check_size(ns, size_bytes, may_shrink, error) : 0;

	if (r == 0)
		r = backend->ops->resize(backend, size_bytes, error);
	if (r == 0)
		r = check_size(ns, backend->limits.size_bytes, may_shrink, error);
	if (r < 0)
		backend_undo_grow(backend);
	if (r < 0 && atomic_load(&backend->has_failed))
		namespace_fail(ns, r);
	return r;
}

int namespace_check_size(const struct namespace *ns, uint64_t size_bytes, struct error *error)
{
	return check_size(ns, size_bytes, false, error);
}

bool namespace_forget_size(struct namespace *ns)
{
	return backend_undo_grow(ns->backend);
}

void namespace_publish_size(struct namespace *ns)
{
	check((ns->backend->limits.size_bytes & ((1U << ns->block_shift) - 1)) == 0);
	ns->n_blocks = ns->backend->limits.size_bytes >> ns->block_shift;
	backend_keep_grown(ns->backend);
}

int namespace_resize(struct namespace *ns, uint64_t size_bytes, bool may_shrink,
		     struct error *error)
{
	int r = namespace_prepare_size(ns, size_bytes, may_shrink, error);

	if (r == 0)
		namespace_publish_size(ns);
	return r;
}
