/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Old writes of a guard: those that a store has had for long. Other associations of the same host
 * wait with a write to the same blocks, because theirs may be a newer copy, or come after one
 * (pair of paths: SPDK issue 3593). The lock is a leaf, and it is taken only for old writes, and by
 * others while there are any.
 */
#pragma once

#include <stdbool.h>

struct pass;

/* Enters an admitted write that a store has had for long, until it leaves. */
void guard_add_aged(struct pass *pass);
void guard_remove_aged(struct pass *pass);
/* Whether such a write of another association of its host overlaps the command. */
bool guard_is_fenced(const struct pass *pass);
