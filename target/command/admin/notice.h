/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notices: changes by the control thread, on their way to controllers. The poller of a controller
 * makes asynchronous events of them. All changes until the poller takes the notice are one
 * notice.
 */
#pragma once

#include <stdint.h>

struct target;

/* Control. The namespace was added, removed or changed in size: notifies every host that is
 * attached to the subsystem. Returns how many controllers. */
unsigned notice_namespace(struct target *target, const char *subnqn, uint32_t nsid);
/* Control. Hosts that came through that portal shall read the ANA log page anew. Returns how many
 * controllers. */
unsigned notice_ana(struct target *target, const char *subnqn, unsigned portal);
/* Control. What discovery shows may be different now. */
void notice_discovery(struct target *target);
