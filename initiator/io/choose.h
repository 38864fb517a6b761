/* SPDX-License-Identifier: BSD-3-Clause */
/* On which lane of a queue the next command goes; see choose.c. I/O loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "initiator/io/queue_impl.h"

struct command;
struct lane;
struct volume_queue;

/* A lane that is never live: what a queue has that has none. */
extern struct lane choose_none;

void choose_init(struct volume_queue *queue, enum volume_policy policy);
/* The lane is attached, or is detached. */
void choose_join(struct lane *lane);
void choose_leave(struct lane *lane);
/* A lane's state has changed: queue->lane may be another one then. */
void choose_look(struct volume_queue *queue);
/* The lane is not attached so far: it has the rank that control wants. */
void choose_take_rank(struct lane *lane);
/* Control has changed ranks. */
void choose_rank(struct volume_queue *queue);
/* The path of the lane refused I/O: others are used for a while. False: there is none. */
bool choose_shun(struct lane *lane);
void choose_shun_none(struct volume_queue *queue);
/* For a command of n_bytes; NULL: none has room. */
struct lane *choose_lane(struct volume_queue *queue, uint64_t n_bytes);
/* The queue has a choice: the duration of its commands counts. */
static inline bool choose_has_choice(const struct lane_choice *choice)
{
	return choice->n_usable > 1;
}
/* A command that is_timed has been answered. */
void choose_note(struct lane *lane, const struct command *command);
