/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that another rblkd has, and its lock: this one stands by. Hosts see the namespace with
 * its size; each I/O ends with -EAGAIN, because the way to the store is by the other rblkd. It is a
 * backend without a line in backend_list.h: no configuration names it. Control thread.
 */
#pragma once

#include "target/store/backend.h"

/* By what is known of the store without its lock (ops->look, which must exist). 0; or -errno and
 * *error, as open. */
int backend_stand_by(const struct backend_ops *ops, const struct backend_config *config,
		     struct backend **ret_backend, struct error *error);
/* For a store that this rblkd has and gives away: of the same limits. NULL: no memory. */
struct backend *backend_stand_by_after(const struct backend *owned);
/* Any thread. */
bool backend_stands_by(const struct backend *backend);
