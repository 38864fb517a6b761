/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The phases of a volume: how its paths come and go, and when to give up.
 * Control loop only.
 */
#pragma once

#include "initiator/control/volume_status.h"

struct path;
struct path_ops;
struct volume;

extern const struct path_ops reconnect_path_ops;

/* Begins the first attempt; callbacks.on_opened has its outcome. */
void reconnect_open(struct volume *volume);
int reconnect_reopen(struct volume *volume); /* as volume_reopen */
/* Ends the association; on_over follows, never from inside. */
void reconnect_close(struct volume *volume);
enum volume_state reconnect_state(const struct volume *volume);
/* Something of the volume is over; on_over follows, if it closes and all is. */
void reconnect_look_whether_over(struct volume *volume);
/* A path that was added begins as the others do, if the volume serves. */
void reconnect_add(struct path *path);
/* The wish of the path has changed: its lanes are to be used accordingly. */
void reconnect_set_ranks(struct path *path);
