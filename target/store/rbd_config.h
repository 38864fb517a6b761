/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys that an image has of its own: rbd.c describes them, the plug-in reads them. Constant. */
#pragma once

#include "target/store/backend_config.h"

/* Where the state of an image's namespace is kept; index into the names of the key ceph_state. */
enum rbd_state {
	RBD_STATE_POOL, /* beside the image */
	RBD_STATE_DIRECTORY,
};

struct rbd_config {
	const char *conf, *user; /* of the cluster: its configuration's path; without "client." */
	enum rbd_state state;
};

/* Those of a namespace whose backend is rbd; borrowed. Any thread. */
static inline const struct rbd_config *rbd_config(const struct backend_config *config)
{
	return config->own;
}
