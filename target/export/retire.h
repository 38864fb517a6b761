/* SPDX-License-Identifier: BSD-3-Clause */
/* Removed namespaces, until their last command has ended. Control thread, which owns them then. */
#pragma once

#include "base/loop.h"
#include "target/export/snapshot.h"

struct retire {
	/* Thread: control */
	struct loop *loop;
	struct list namespaces;	 /* of struct namespace (node): removed, with commands under way */
	struct loop_timer timer; /* checks whether these have ended */
};

/* Control initializes the loop before it retires the first snapshot. */
void retire_init(struct retire *retire, struct loop *loop);
/* No poller can find the snapshot any more: a grace period has passed since its removal. */
void retire_snapshot(struct retire *retire, struct snapshot *snapshot);
/* No queue uses the device any more: its registrations end. */
void retire_forget_device(struct retire *retire, unsigned device_index);
/* Once pollers have stopped: closes all that are left. */
void retire_end(struct retire *retire);
