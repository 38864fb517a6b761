/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of a namespace that a host has declared lost, until they are written. The queue's
 * poller. */
#pragma once

#include "target/engine/request.h"

/* Declares the command's blocks lost. Returns the state, TURN; request_run is called later. */
enum request_state lost_blocks_declare(struct request *r);
/* Whether some of the command's blocks are lost. The command has written them. */
bool lost_blocks_are_written(const struct request *r);
/* The command's blocks are valid again, or the command fails. Returns the state, TURN. */
enum request_state lost_blocks_heal(struct request *r);
