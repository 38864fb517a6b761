/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images of a Ceph cluster, "POOL/IMAGE" or "POOL/NAMESPACE/IMAGE". rblkd has only the key and the
 * way to the plug-in (plugin.h, rbd/): a backend that open returns has the table of the plug-in.
 * Control thread.
 */
#include <errno.h>
#include <limits.h>

#include "base/conf_schema.h"
#include "target/store/backends.h"
#include "target/store/plugin.h"
#include "target/store/rbd_config.h"

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

static const char *rbd_refuse_owner(const struct backend_config *config)
{
	return rbd_config(config)->state == RBD_STATE_DIRECTORY
		       ? "ceph_state: directory keeps reservations from the next owner"
		       : NULL;
}

static bool rbd_end(void)
{
	return !loaded || loaded->end();
}

/* By enum rbd_state. */
static const char *const state_names[] = {"pool", "directory", NULL};

static const struct conf_key keys[] = {
	{"ceph_conf", CONF_STRING, .offset = offsetof(struct rbd_config, conf), .max = PATH_MAX - 1,
	 .check = conf_check_path, .default_value = "/etc/ceph/ceph.conf",
	 .help = "Configuration of the image's cluster."},
	{"ceph_user", CONF_STRING, .offset = offsetof(struct rbd_config, user), .min = 1, .max = 64,
	 .check = conf_check_ascii, .default_value = "rblk",
	 .help = "User of the cluster, without client. in front."},
	{"ceph_state", CONF_ENUM, .offset = offsetof(struct rbd_config, state),
	 .names = state_names, .default_value = "pool",
	 .help = "Where reservations are kept: pool, beside the image; directory: state_directory."},
	{0},
};

const struct backend_ops backend_rbd = {
	.name = "rbd",
	.key = {.type = CONF_STRING,
		.min = 1,
		.max = 300,
		.help = "Serves this image of a Ceph cluster: POOL/IMAGE."},
	.keys = keys,
	.own_bytes = sizeof(struct rbd_config),
	.has_cluster = true,
	.can_share = true,
	.has_many_readers = true,
	.prepare = rbd_prepare,
	.open = rbd_open,
	.check = rbd_check,
	.look = rbd_look,
	.refuse_owner = rbd_refuse_owner,
	.end = rbd_end,
	.unchecked = "only the cluster knows pool, image and user; a start asks it",
};
