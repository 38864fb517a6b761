/* SPDX-License-Identifier: BSD-3-Clause */
/* Becoming the owner of a group. Control thread. */
#pragma once

#include "target/operations/ownership/group.h"

/*
 * Opens the stores that the group does not have yet, in the order of their nsid, and with the last
 * one serves all. Never waits for a lock. 0: it is the owner; -EINPROGRESS: a store is being
 * opened; -ENOENT: the group has no namespace; or -errno, and group->why: it may be tried again.
 *
 * Two rblkd that take at the same time cannot both wait for the other, because the one with the
 * first lock has the others next.
 */
int group_take(struct group *group);
/* Closes what it has and does not serve. */
void group_drop(struct group *group);
