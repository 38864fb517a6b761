/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's removal and return, as by a driver that cannot take the device away from its users:
 * it begins on request, and is complete when no object holds the device any more. Each context,
 * domain, region, window, channel, queue, queue pair, XRC domain and id holds it from its creation
 * to its destruction. Any thread.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

enum sr_hold {
	HOLD_CONTEXT, /* until every copy of its descriptor is closed */
	HOLD_PD,
	HOLD_MR,
	HOLD_MW,
	HOLD_CHANNEL,
	HOLD_CQ,
	HOLD_SRQ,
	HOLD_QP, /* and each handle of one */
	HOLD_XRCD,
	HOLD_ID, /* of rdma_cm, bound to the device */
	N_HOLDS
};

/* An object was created, or is gone. The last unhold lets a removed device leave. */
void sr_removal_hold(enum sr_hold what);
void sr_removal_unhold(enum sr_hold what);
/* The present device; NULL while it is removed. Each return makes another device. */
struct ibv_device *sr_removal_device(void);
/* Requests that the device is away, or present. True if a removal begins. */
bool sr_removal_want(bool is_away);
