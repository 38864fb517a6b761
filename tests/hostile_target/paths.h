/* SPDX-License-Identifier: BSD-3-Clause */
/* For the tests of several paths: one volume, and a fake target behind each of its paths. */
#pragma once

#include "tests/hostile_target/world.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum {
	PATIENCE_MS = 20000,
	PIECE = 4096,
	PATHS_MAX = 3,
};

extern struct target targets[PATHS_MAX]; /* by the path's index; pid 0: not running */
extern struct client client;
extern void *buffer;	      /* of PIECE bytes */
extern const char *paths_arg; /* each target's first; or NULL */

struct volume_status paths_status(void);
enum volume_path_state paths_state_of(unsigned path);
void paths_wait(unsigned path, enum volume_path_state state);
/* Starts n targets, that of `path` with args too (NULL: none), and configures the client.
 * Round-robin: of n I/Os in a row each path gets one. */
void paths_prepare(unsigned n, unsigned path, const char *const *args);
/* Later I/O goes by the other paths alone. */
void paths_kill(unsigned path);
/* The same target again, at its port, with these args (or NULL). */
void paths_start_again(unsigned path, const char *const *args);
/* Opens by the first path. */
void paths_open_first(void);
/* Opens, and waits for all. */
void paths_open(void);
void paths_begin(unsigned n, unsigned path, const char *const *args);
void paths_end(void);
int do_write(uint64_t offset);
int do_flush(void);
void paths_write_to_each(void);
