/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files by which the command line finds volume processes, in the run directory
 * (base/run_dir.h): volumes/NAME.sock (control), volumes/NAME.nbd (NBD), volumes/NAME.log,
 * volumes/NAME.fence (associations that may still write, for a successor), and by-uuid/UUID, which
 * hold names for the udev rule of /dev/disk/by-rblk.
 */
#pragma once

#include <limits.h>

#include "initiator/control/volume.h"

/* "RUN/volumes/NAME.SUFFIX", or the directory when name is NULL. 0, or an exit code with *error. */
int run_dir_path(char path[PATH_MAX], const char *name, const char *suffix, struct error *error);
/* "RUN/by-uuid". */
int run_dir_names(char path[PATH_MAX], struct error *error);
/* "RUN/volumes/.lock": held while a control socket is created, and while a dead one is removed. */
int run_dir_lock_path(char path[PATH_MAX], struct error *error);
/* Makes the directories. 0, or an exit code with *error filled. */
int run_dir_create(struct error *error);
