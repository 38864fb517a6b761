/* SPDX-License-Identifier: BSD-3-Clause */
/* Volumes that are attached again at boot, by the unit rblk-volume@NAME. Thread: main. */
#pragma once

#include "base/error.h"

/* Writes NAME.conf into /etc/rblk/volumes (or $RBLK_CONFIG_DIR/volumes) and enables the unit.
 * words: the options of rblk attach, with their values. 0, or an exit code with *error filled: the
 * file exists and says something else, a word cannot stand in it, systemd refuses. */
int persist_volume(const char *name, const char *target, char **words, unsigned n,
		   struct error *error);
