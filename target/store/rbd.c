/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images of a Ceph cluster, "POOL/IMAGE" or "POOL/NAMESPACE/IMAGE". rblkd has only the key and the
 * way to the plug-in (plugin.h, rbd/): a backend that open returns has the table of the plug-in.
 * Control thread.
 */
#include <errno.h>

#include "target/store/backends.h"
#include "target/store/plugin.h"

/* NULL: no image was ever opened, so nothing has loaded it. */
static const struct backend_ops *loaded;

static const struct backend_ops *load(struct error *error)
{
	loaded = backend_plugin_load("rbd", error);
	return loaded;
}

static int rbd_check(const struct backend_config *config, uint64_t ret_identity[2],
		     struct error *error)
{
	const struct backend_ops *ops = load(error);

	ret_identity[0] = ret_identity[1] = 0;
	return ops ? ops->check(config, ret_identity, error) : -ENOEXEC;
}

static int rbd_prepare(const struct backend_config *config)
{
	struct error error; /* open reports it */
	const struct backend_ops *ops = load(&error);

	return ops ? ops->prepare(config) : 0;
}

static int rbd_open(const struct backend_config *config, struct backend **ret_backend,
		    struct error *error)
{
	const struct backend_ops *ops = load(error);

	return ops ? ops->open(config, ret_backend, error) : -ENOEXEC;
}

static int rbd_look(const struct backend_config *config, struct backend_limits *ret_limits,
		    struct error *error)
{
	const struct backend_ops *ops = load(error);

	return ops ? ops->look(config, ret_limits, error) : -ENOEXEC;
}

static bool rbd_end(void)
{
	return !loaded || loaded->end();
}

const struct backend_ops backend_rbd = {
	.name = "rbd",
	.key = {.type = CONF_STRING,
		.min = 1,
		.max = 300,
		.help = "Serves this image of a Ceph cluster: POOL/IMAGE."},
	.has_cluster = true,
	.can_share = true,
	.has_many_readers = true,
	.prepare = rbd_prepare,
	.open = rbd_open,
	.check = rbd_check,
	.look = rbd_look,
	.end = rbd_end,
	.unchecked = "only the cluster knows pool, image and user; a start asks it",
};
