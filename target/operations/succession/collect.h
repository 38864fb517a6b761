/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects what a target leaves to its successor: export/handover.h. Control thread. */
#pragma once

#include "target/engine/record/target.h"
#include "target/export/handover.h"

/* Once pollers have stopped, and before the stores are closed. The handover shares the memory of
 * ram namespaces. 0; or -errno, and there is none. */
int collect_handover(const struct target *target, struct handover *ret_handover);
/* Sends it by messages (message.h), which is possible more than once. 0 or -errno. */
int collect_send(const struct handover *handover, int socket);
