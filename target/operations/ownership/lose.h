/* SPDX-License-Identifier: BSD-3-Clause */
/* A store that is lost: another rblkd may be the owner of the group by now. Control thread. */
#pragma once

#include "target/operations/ownership/group.h"

/*
 * In TAKES, OWNS and DRAINS. If a store of the group is lost (backend.lost_why), the associations
 * of the subsystem end without another answer, and the group stands by, without any store. True: it
 * does now. False: nothing is lost; or there is no memory, and the next call tries again.
 */
bool group_lose(struct group *group);
/* As rblkd ends: associations that use a lost store end, as above. */
void group_lose_all(struct target *target);
