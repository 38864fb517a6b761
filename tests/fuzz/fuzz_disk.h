/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A disk in memory that fails and hangs when told to, and a state directory that is none, in place of
 * target/export/state_file.c.
 */
#pragma once

#include "target/store/backend.h"

enum {
	DISK_BYTES = 256 << 10,
};

struct state_directory;

/* The one disk, empty. Its I/O ends in the loop's next turn. */
struct backend *disk_open(struct loop *loop);
/* The next n operations fail with this errno (0: none does); is_held: none ends until the next call. */
void disk_say(int error, unsigned n, bool is_held);
bool disk_is_held(void);

/* A directory that remembers nothing; is_full: but of each namespace as many uncorrectable blocks as can
 * be. */
struct state_directory *disk_state(bool can_write, bool is_full);
