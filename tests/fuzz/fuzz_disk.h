/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A disk in memory that fails and hangs as the script orders, and a stand-in for
 * target/export/state_file.c that stores nothing. All functions run on the fuzzer's one thread;
 * disk_open() returns the one static disk.
 */
#pragma once

#include "target/store/backend.h"

enum {
	DISK_BYTES = 256 << 10,
};

struct state_directory;

/* The one disk, empty. Its I/O ends in the loop's next turn. */
struct backend *disk_open(struct loop *loop);
/* The next n operations fail with this errno (0: none fails); is_held: none ends until the next
 * call. */
void disk_say(int error, unsigned n, bool is_held);
bool disk_is_held(void);
/* The operations that a held disk has; the oldest of them ends in the loop's next turn. */
unsigned disk_n_held(void);
void disk_end_oldest(void);
/* The result of the next operation, which counts as one of the n: 0, or -errno. */
int disk_take_error(void);

/* A directory that stores nothing. is_full: it reports the maximum of uncorrectable blocks for
 * each namespace. */
struct state_directory *disk_state(bool can_write, bool is_full);
/* A directory that stores nothing, and has what disk_leave has put there for each namespace. */
struct state_directory *disk_groups(void);
/* Another rblkd, the owner of the groups, has this text as each namespace's record; n = 0: none. */
void disk_leave(const uint8_t *text, size_t n);
