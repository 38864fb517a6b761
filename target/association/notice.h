/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notices: what the control thread has changed, on its way to controllers, whose pollers make
 * asynchronous events of it. Any number of changes until the poller looks are one notice.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "target/export/subsystem.h"

struct target;

/* Embedded in a controller. */
struct notice {
	/* Thread: control sets, the poller of the admin queue takes */
	struct loop_msg msg;
	_Atomic bool is_sent;
	_Atomic uint64_t changed_ns[NSID_MAX / 64 + 1]; /* bit by nsid */
	_Atomic bool has_discovery_changed, has_ana_changed;
};

/* Control. The namespace was added, removed or changed in size: tells every host that is attached
 * to the subsystem. Returns how many controllers. */
unsigned notice_namespace(struct target *target, const char *subnqn, uint32_t nsid);
/* Control. Hosts that came through that portal shall read the ANA log page anew. Returns how many
 * controllers. */
unsigned notice_ana(struct target *target, const char *subnqn, unsigned portal);
/* Control. What discovery shows may be different now. */
void notice_discovery(struct target *target);
