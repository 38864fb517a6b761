/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the target has lost power: its SMART log (page 02h, Base 2.0 figure 196) read with each
 * association, and compared. See initiator/io/unflushed.h for what follows from it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct controller;
struct path;
struct power_life;

/* Control. Reads the page into c->life; then done, not from inside. A target that refuses is none
 * whose loss of power can be known. Not called when the association is lost before. */
void power_read(struct controller *c, void (*done)(struct controller *c));
/* Pure: data is the page, 512 bytes of which nothing is trusted. */
void power_parse(const void *data, struct power_life *ret_life);
/* Pure. Unsafe Shutdowns has grown; or Power Cycles, which only grows, has become less: the target
 * has lost its record, and what it has lost besides cannot be known. */
bool power_was_lost(const struct power_life *before, const struct power_life *now);

/* Control. The path is lost; and later: its last lane is gone. */
void power_on_lost(struct path *path);
void power_on_idle(struct path *path);
/* Control. The association is whole, and no lane of it is connected: compares with the last one,
 * and makes the next Flush fail if writes may be lost. Before volume_learn. */
void power_compare(struct path *path);
