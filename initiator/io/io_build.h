/* SPDX-License-Identifier: BSD-3-Clause */
/* The command of an I/O: io_build.c. I/O loop. */
#pragma once

#include "initiator/io/lane_impl.h"

/* Fills the capsule of a command that was taken for command->io, for as much of the I/O as one
 * command may do from done_bytes on: command->n_bytes. Binds a window, if the lane has windows: the
 * caller has found room (lane_has_room). Fills sges and returns how many. */
unsigned io_build(struct lane *lane, struct command *command, struct sge sges[QP_SGE_MAX]);
