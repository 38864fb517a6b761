/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes the state of an ANA group while hosts are connected. Control thread. */
#pragma once

#include "target/export/ana.h"
#include "target/engine/record/target.h"

/*
 * Sets the group (index in the subsystem's table, which must exist) to a state through these
 * portals (bits), and notifies the hosts connected through a portal whose state changed. Commands
 * that have touched a namespace by then finish. 0 with the number of notified controllers, or
 * -ENOMEM.
 */
int ana_change(struct target *target, const char *subnqn, unsigned group, uint32_t portal_mask,
	       enum nvme_ana_state state, unsigned *ret_n_told);
/* The same for all portals, by the owner of a group that has one (ana_with_owner). */
int ana_change_owner(struct target *target, const char *subnqn, unsigned group,
		     enum ana_owner owner);
/* Logs the states of a group that differ in the published table, and notifies the hosts. The number
 * of notified controllers. */
unsigned ana_tell(struct target *target, const char *subnqn, const struct ana *before,
		  const struct ana *after, unsigned group);
