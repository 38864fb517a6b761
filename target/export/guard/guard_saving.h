/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a guard that saves and reads its state as a record: guard_state.c, guard_adopt.c. */
#pragma once

#include "target/store/backend.h"
#include "target/store/record.h"

struct bad_blocks;
struct pass;
struct reservation;

/* The state that survives a restart: guard_state.h. Borrowed. */
struct guard_kept {
	struct reservation *reservation;
	struct bad_blocks *bad_blocks;
	unsigned write_protect;
};

/* Thread: the poller of the turn's owner; control before the first turn and after the last. */
struct guard_saving {
	struct backend_io io; /* on a worker: from text, and to text */
	struct record_op op;
	uint64_t version;	/* of the record that the state is from; control sets it at first */
	char *text;		/* owned: the record's contents */
	struct guard_kept kept; /* what becomes that text, or comes from it */
	struct guard_kept old;	/* what was replaced; freed when no poller uses it */
	unsigned n_conflicts;	/* in a row */
	int error;		/* of the save, while the old contents are put back */
	void (*on_read)(struct pass *owner, int error);
	void (*on_saved)(struct pass *owner, int error);
};
