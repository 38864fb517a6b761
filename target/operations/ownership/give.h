/* SPDX-License-Identifier: BSD-3-Clause */
/* Giving a group away, so that another rblkd becomes its owner. Control thread. */
#pragma once

#include "target/operations/ownership/group.h"

enum {
	GIVE_LIMIT_S = 5, /* half of ANATT, so that hosts have time left to find the new owner */
};

/* Hosts find the namespaces of the group without a store from now on. 0; or -ENOMEM: nothing has
 * changed. */
int group_stand_by(struct group *group);
/* From OWNS to DRAINS: hosts find the group inaccessible here. 0; or -errno and *error: nothing has
 * changed. */
int group_give(struct group *group, struct error *error);
/* In DRAINS and CLOSES: goes on when the last commands are over, and the stores closed. False: call
 * again soon. True: it stands by, or is the owner as before, because commands did not end in time.
 * */
bool group_give_on(struct group *group);
