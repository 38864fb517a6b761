/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

/*
 * The device's removal and return, as of a driver that cannot take it away from under its
 * users: it begins when it is asked for, and is complete when nothing holds the device any
 * more. Any thread.
 */

enum sr_hold {
	HOLD_CONTEXT, /* until its descriptor is closed, by whatever way */
	HOLD_PD,
	HOLD_MR,
	HOLD_MW,
	HOLD_CHANNEL,
	HOLD_CQ,
	HOLD_SRQ,
	HOLD_QP,
	HOLD_ID, /* of rdma_cm, bound to the device */
	N_HOLDS
};

void sr_removal_hold(enum sr_hold what);
void sr_removal_unhold(enum sr_hold what);
/* The device as it is now, NULL while it is removed. Back, it is another device. */
struct ibv_device *sr_removal_device(void);
/* The device shall be away, or there. True if a removal begins. */
bool sr_removal_want(bool is_away);
