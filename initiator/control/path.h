/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One path of a volume: a portal of the target, the association through it, and when to try again.
 * reconnect.c decides what follows for the volume. Control loop only; see path.c.
 */
#pragma once

#include "initiator/control/path_impl.h"

void path_init(struct path *path, struct volume *volume, unsigned index, const union addr *address,
	       const struct path_ops *ops);
/* IDLE, and without lanes. */
void path_deinit(struct path *path);
/* IDLE or WAITING: the next attempt, now. */
void path_connect(struct path *path);
/* IDLE: the next attempt, when it is due. */
void path_wait(struct path *path);
/* IDLE: the next attempt, after delay_ns. */
void path_wait_for(struct path *path, uint64_t delay_ns);
/* Ends whatever there is, and becomes IDLE; on_idle follows, not from inside, unless it is IDLE. */
void path_take_down(struct path *path);
/* As path_take_down, with a normal shutdown of the controller. LIVE: no lane is connected. */
void path_shut_down(struct path *path);
/* As path_shut_down, while the volume goes on: on_lost if it is LIVE. */
void path_remove(struct path *path);
/* A lane of the path was freed: that may be the last thing that an end waits for. */
void path_on_lane_gone(struct path *path);
/* LIVE, but what is known of it has changed for the worse (*error): on_lost, and so on. */
void path_lose(struct path *path, const struct error *error);
void path_set_obstacle(struct path *path, enum path_obstacle obstacle);

extern const struct connection_ops path_connection_ops;
