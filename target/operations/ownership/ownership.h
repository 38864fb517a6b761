/* SPDX-License-Identifier: BSD-3-Clause */
/* All groups with one owner (group.h), and when each is looked at. Control thread. */
#pragma once

#include "target/operations/ownership/group.h"

/* Once the snapshot is there: becomes the owner of what has none. 0 or -ENOMEM. */
int ownership_start(struct target *target);
/* Nothing more is taken; what is owned stays so until its stores are closed. Accepts what was not
 * started. */
void ownership_stop(struct target *target);
/* The configuration has changed: groups and namespaces may have come or gone. */
void ownership_follow(struct target *target);
/* NULL: there is none. */
struct group *ownership_find(struct target *target, const char *subnqn, uint32_t id);
/* Gives the group away. Another rblkd that stands by has it some 20 ms after its stores are closed;
 * if none does, this one takes it back. As group_give. */
int ownership_give(struct group *group, struct error *error);
