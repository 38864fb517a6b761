/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores whose size others change while rblkd runs: it follows, and notifies the hosts. */
#pragma once

struct target;

/* Control, before a store is open. 0 or -ENOMEM. */
int store_sizes_start(struct target *target);
/* Control, when all stores are closed. Accepts what was not started. */
void store_sizes_stop(struct target *target);
/* Control. Publishes the sizes of stores that have changed since the last time. */
void store_sizes_follow(struct target *target);
