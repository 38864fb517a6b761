/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes the state of an ANA group while hosts are connected. Control thread. */
#pragma once

#include "target/export/ana.h"
#include "target/engine/target.h"

/*
 * Sets the group (index in the subsystem's table, which must exist) to a state through these
 * portals (bits), and notifies the hosts connected through a portal whose state changed. Commands
 * that have touched a namespace by then finish. 0 with the number of notified controllers, or
 * -ENOMEM.
 */
int ana_change(struct target *target, const char *subnqn, unsigned group, uint32_t portal_mask,
	       enum nvme_ana_state state, unsigned *ret_n_told);
