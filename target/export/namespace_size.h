/* SPDX-License-Identifier: BSD-3-Clause */
/* The size of a namespace while hosts use it. */
#pragma once

#include "target/export/snapshot.h"

/*
 * Control. Reads the size of the backing store again, and publishes it to pollers. With a size,
 * makes the store that large first (0: leaves it). A smaller size needs may_shrink. 0; or -errno
 * and *error, and nothing is published. The caller notifies the hosts.
 */
int namespace_resize(struct namespace *ns, uint64_t size_bytes, bool may_shrink,
		     struct error *error);
/* Its two halves: first all that can fail, which no poller sees; then the publishing. */
int namespace_prepare_size(struct namespace *ns, uint64_t size_bytes, bool may_shrink,
			   struct error *error);
void namespace_publish_size(struct namespace *ns);
/* Instead of publishing: undoes the preparation. False, with a warning: the store stays larger. */
bool namespace_forget_size(struct namespace *ns);
/* Whether the size is possible, as far as known without access to the backing store. */
int namespace_check_size(const struct namespace *ns, uint64_t size_bytes, struct error *error);
uint64_t namespace_bytes(const struct namespace *ns);
