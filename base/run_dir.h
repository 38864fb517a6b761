/* SPDX-License-Identifier: BSD-3-Clause */
/* The run directory, where programs of one user meet: one rule for rblk, rblkd and rblkctl. */
#pragma once

#include <limits.h>

#define RUN_DIR_SYSTEM "/run/rblk"

/* $RBLK_RUN_DIR; else /run/rblk for root and $XDG_RUNTIME_DIR/rblk for others. Any thread. 0; -ENOENT when
 * there is none; -EINVAL when it is no absolute path. */
int run_dir_base(char base[PATH_MAX]);
/* A name in it for a daemon's socket; that of the system where there is no run directory, as for a
 * service that is not root. */
void run_dir_socket(char path[PATH_MAX], const char *name);
