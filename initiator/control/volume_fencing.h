/* SPDX-License-Identifier: BSD-3-Clause */
/* Proof (proof.c) in the status of a volume. */
#pragma once

#include <stdint.h>

#include "base/addr.h"

/* How it was shown that a lost association is over. */
enum fencing_way {
	FENCING_RESET,	 /* by Cross-Controller Reset */
	FENCING_TIME,	 /* by time: keep alive and the target's quiesce time have passed */
	FENCING_CONNECT, /* not shown: the target has neither; its answer to Connect was trusted */
	FENCING_WORD,	 /* not shown: an administrator vouches that its target is dead */
	FENCING_WAYS,
};

enum fencing_state {
	FENCING_NONE,	 /* no association was lost so far */
	FENCING_ASKS,	 /* a controller is being asked, or resets the old one */
	FENCING_HOLDS,	 /* time has to pass: left_ns */
	FENCING_UNKNOWN, /* no target can say, and no time was agreed: waits_for */
	FENCING_AWAITS,	 /* proof is awaited, and a controller to ask first */
	FENCING_PROVEN,	 /* last_way has shown it */
	FENCING_TRUSTED, /* last_way was trusted: nothing has shown it */
	FENCING_STATES,
};

struct volume_fencing {
	enum fencing_state state;
	uint64_t left_ns;	 /* FENCING_HOLDS */
	union addr waits_for;	 /* FENCING_UNKNOWN: of the lost association */
	unsigned n_associations; /* without proof */
	unsigned n_changes;	 /* I/O that waits for it */
	uint64_t n_by[FENCING_WAYS];
	enum fencing_way last_way;
};
