/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of pollers; see poller.h. Each poller has one mapping, registered once with each device: a
 * large arena for I/O, and a small one for Connect and admin commands. So a slow disk that holds
 * every I/O buffer does not keep hosts from connecting or staying connected. Where a device may not
 * lock that much memory, the large arenas of all pollers shrink together, as long as no queue has
 * ever used them.
 */
#pragma once

#include <stdbool.h>

struct poller;
struct target;

/* Control. Maps a poller's arenas: 0 or -errno. Frees them; accepts one without. */
int poller_make_memory(struct poller *poller);
void poller_free_memory(struct poller *poller);
/* Control. Whether the arenas of data may become smaller: no queue has used them yet, and they hold
 * more than one buffer of full size. */
bool pollers_can_shrink(const struct target *target);
/* Control. Halves them, of all pollers. Nothing is registered. 0 or -ENOMEM. */
int pollers_shrink(struct target *target);
