/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces that nobody can find any more, until their last command is over. Control thread. */
#pragma once

#include "target/engine/target.h"

void retire_init(struct target *target);
/* No poller can find the snapshot any more (a grace period has passed since). */
void retire_snapshot(struct target *target, struct snapshot *snapshot);
/* Nobody uses the device any more: its registrations go. */
void retire_forget_device(struct target *target, unsigned device_index);
/* Pollers have stopped: closes all that are left. */
void retire_end(struct target *target);
