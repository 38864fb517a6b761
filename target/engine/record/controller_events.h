/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of a controller: what its host is to be notified of. Parts of struct controller. */
#pragma once

#include "base/loop.h"
#include "target/config/limits.h"
#include "transport/wire/nvme_reservation.h"

enum {
	RESV_NOTICES = 64,
};

enum controller_event { /* bits */
	EVENT_NS_CHANGED = 1 << 0,
	EVENT_DISCOVERY_CHANGED = 1 << 1,
	EVENT_RESERVATION = 1 << 2,
	EVENT_ANA_CHANGED = 1 << 3,
	EVENT_CROSS_RESET = 1 << 4,
	EVENT_LOST_HOST = 1 << 5,
	EVENT_MOVING = 1 << 6,
};

/* The entries of log page 80h; a ring. */
struct resv_notices {
	struct nvme_resv_log entries[RESV_NOTICES];
	unsigned first, n;
	uint64_t count; /* of all notices, including those that found the ring full */
};

/* Changes that the host must be notified of (command/admin/notice.h). */
struct notice {
	/* Thread: control sets, the poller of the admin queue takes */
	struct loop_msg msg;
	_Atomic bool is_sent;
	_Atomic uint64_t changed_ns[NSID_MAX / 64 + 1]; /* bit by nsid */
	_Atomic bool has_discovery_changed, has_ana_changed, has_lost_host, is_moving;
	/* The poller sets, control reads: the host was told to connect again, and has not asked for
	 * another event since. One that follows does not; one that ignores the event does. */
	_Atomic bool is_leaving;
};
