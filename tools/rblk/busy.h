/* SPDX-License-Identifier: BSD-3-Clause */
/* Is a block device in use, and by which mount, swap or holder? Blocks for I/O. Thread: main. */
#pragma once

#include "initiator/control/volume.h"

/* 0 after everything written to it reached the volume; EXIT_BUSY with *error naming the holder;
 * another exit code when the device cannot be checked or flushed. */
int busy_check_and_sync(const char *device, struct error *error);
