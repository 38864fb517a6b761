/* SPDX-License-Identifier: BSD-3-Clause */
/* The size of a namespace while hosts use it. */
#pragma once

#include "target/export/snapshot.h"

/*
 * Control. Looks at the size of what is behind the namespace, and publishes it to pollers; with a
 * size, makes the store that large before (0: leaves it). Smaller than it was only if may_shrink.
 * 0, or -errno with one line in why and nothing published; the hosts are the caller's to tell.
 */
int namespace_resize(struct namespace *ns, uint64_t size_bytes, bool may_shrink, char *why,
		     size_t n);
/* The two halves of it: all that can fail, which no poller sees; and the publishing. */
int namespace_prepare_size(struct namespace *ns, uint64_t size_bytes, bool may_shrink, char *why,
			   size_t n);
void namespace_publish_size(struct namespace *ns);
/* Instead of that: what was prepared is undone. False, and a warning: the store stays larger. */
bool namespace_forget_size(struct namespace *ns);
/* Whether the size fits the namespace, as far as can be seen without touching what is behind it. */
int namespace_check_size(const struct namespace *ns, uint64_t size_bytes, char *why, size_t n);
uint64_t namespace_bytes(const struct namespace *ns);
