/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Standing by for an image, of which another rblkd of the same cluster is the owner, until this one
 * is. The opener's thread, which waits for the cluster.
 */
#pragma once

#include "target/store/rbd/image.h"

/* The one that waits. */
struct standing {
	/* Called several times a second. result, why: what it waits for (ops.open). False:
	 * nothing asks for the image any more. */
	bool (*goes_on)(struct standing *standing, int result, const struct error *why);
};

/*
 * Returns when this client has the exclusive lock of the image, which is open then and renews its
 * lease: 0. No write of an earlier owner reaches the image any more. -ECANCELED:
 * nothing asks any more, and nothing is open.
 */
int stand_by_for_image(struct image *image, const struct backend_config *config,
		       struct standing *standing);
