/* SPDX-License-Identifier: BSD-3-Clause */
/* The paths of a volume, as front ends see and change them; see volume_paths.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/error.h"
#include "initiator/control/volume_status.h"

struct volume;
struct path;
struct volume_queue;

/* Control thread. One more path, which connects as the others do. 0, or -errno with *error: it is
 * one already, there are VOLUME_PATHS_MAX, or the volume was never live. */
int volume_path_add(struct volume *volume, const union addr *address, struct error *error);
/* Control thread. New I/O takes other paths from now on, and volume_path_go follows. is_dead: an
 * administrator vouches that its target is dead for sure, so writes that wait for the proof that it
 * is done with an earlier copy go on. (If it is not, such a copy may land over newer data.) 0, or
 * -errno with *error: no such path, no other one is live, or it is not dead, but live. */
int volume_path_leave(struct volume *volume, const union addr *address, bool is_dead,
		      struct error *error);

enum volume_departure {
	DEPARTURE_DONE,	      /* there is no such path (any more), or it stays */
	DEPARTURE_UNDER_WAY,  /* it is not used any more, and is being taken down */
	DEPARTURE_WAITS,      /* it has I/O in flight, or a queue has no other: ask again soon */
	DEPARTURE_WANTS_FLUSH /* it has acknowledged writes: ask again after a Flush on any queue */
};
/* Control thread. A path that leaves, because a user or discovery removes it, and for which
 * volume_path_go is to be called. False: there is none. */
bool volume_path_leaving(const struct volume *volume, union addr *ret_address);
/* Control thread. A path that leaves goes, if nothing is to be waited for. */
enum volume_departure volume_path_go(struct volume *volume, const union addr *address);

/* NULL: there is none. */
struct path *volume_path_find(const struct volume *volume, const union addr *address);
/* As volume_path_add, for a path that this discovery controller lists. */
int volume_path_add_found(struct volume *volume, const union addr *address,
			  const union addr *found_at, struct error *error);
/* No log has the path any more, so it leaves; front ends are notified. 0, or -EBUSY: it must not go
 * now, since no other one is live, or writes would never be proven or flushed. */
int volume_path_leave_found(struct path *path);

/* Those of the configuration. 0 or -ENOMEM. */
int volume_make_paths(struct volume *volume);
/* The path has acknowledged writes that no Flush covers. */
bool volume_path_has_unflushed(const struct path *path);
void volume_free_paths(struct volume *volume);
/* The lane of the path in this queue. 0 or -ENOMEM. */
int volume_make_lane(struct volume_queue *queue, struct path *path);
/* Its connection is idle. Accepts that there is none. */
void volume_free_lane(struct volume_queue *queue, struct path *path);
