/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes whose data comes in the capsule, to a disk that hangs on demand (hung_disk.c): what the
 * tests of fencing share. */
#pragma once

#include "tests/raw/host.h"

enum {
	FENCING_PATIENCE_MS = 60000,
	FENCING_BLOCK = 4096,
};

/* Setup of a group: as start, with a disk that can hang. */
int fencing_start(void **state);
/* The same with fencing.quiesce of 2 s. */
int fencing_start_quick(void **state);
void fencing_hang_disk(bool is_hung);
/* The disk hangs with the next command, and others go on. */
void fencing_hang_one(void);
/* Waits until the hung disk holds a command. */
void fencing_wait_held(void);
/* Writes 4 KiB of value as the block of this number. rblkd needs nothing more of the host. */
void fencing_send_write(struct raw_queue *q, uint32_t nsid, unsigned number, char value);
void fencing_must_read(struct raw_queue *q, uint32_t nsid, unsigned number, char value);
