/* SPDX-License-Identifier: BSD-3-Clause */
/* How many paths a volume may have, and which of them a command takes. Any thread. */
#pragma once

enum {
	VOLUME_PATHS_MAX = 8,
};

/* Which of several paths that serve the namespace equally well gets the next command. */
enum volume_policy {
	VOLUME_POLICY_LATENCY, /* the one that is expected to answer first */
	VOLUME_POLICY_QUEUE_DEPTH,
	VOLUME_POLICY_ROUND_ROBIN,
};
