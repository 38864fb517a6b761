/* SPDX-License-Identifier: BSD-3-Clause */
/* The run directory, which holds the sockets of one user's programs: one rule for all of them. */
#pragma once

#include <limits.h>

#define RUN_DIR_SYSTEM "/run/rblk"

/* $RBLK_RUN_DIR; else /run/rblk for root and $XDG_RUNTIME_DIR/rblk for other users. Any thread. 0;
 * -ENOENT: there is none; -EINVAL: it is not an absolute path. */
int run_dir_base(char base[PATH_MAX]);
/* The path of a daemon's socket in it. Without a run directory, as for a service that is not root,
 * in RUN_DIR_SYSTEM. Any thread. */
void run_dir_socket(char path[PATH_MAX], const char *name);
