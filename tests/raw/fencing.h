/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes whose data comes in the capsule, to a disk that hangs on demand (hung_disk.c): what the
 * tests of fencing share. */
#pragma once

#include "tests/raw/host.h"

enum {
	FENCING_PATIENCE_MS = 60000,
	FENCING_BLOCK = 4096,
};

/* Setup of a group: as start, with a disk that can hang, and fencing.quiesce of 2 s. */
int fencing_start_quick(void **state);
/* Setup of a test: from now on fencing.quiesce is the default. */
int fencing_be_patient(void **state);
void fencing_hang_disk(bool is_hung);
/* The disk hangs with the next command, and others go on. */
void fencing_hang_one(void);
/* The disk hangs, and holds a write of value to block 0 of DAEMON_FILE. */
void fencing_hold_write(struct raw_queue *q, char value);
/* Waits until the hung disk holds a command. */
void fencing_wait_held(void);
/* Writes 4 KiB of value as the block of this number. rblkd needs nothing more of the host. */
void fencing_send_write(struct raw_queue *q, uint32_t nsid, unsigned number, char value);
/* The same, and waits until it has succeeded. */
void fencing_write(struct raw_queue *q, uint32_t nsid, unsigned number, char value);
void fencing_must_read(struct raw_queue *q, uint32_t nsid, unsigned number, char value);
