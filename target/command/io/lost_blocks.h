/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that a host has declared lost, until they are written. Poller of the queue. */
#pragma once

#include "target/engine/request/request.h"

/* Declares the command's blocks lost. Returns the state, TURN; request_run is called later. */
enum request_state lost_blocks_declare(struct request *r);
/* For a command that has written its blocks: whether some of them are lost. */
bool lost_blocks_are_written(const struct request *r);
/* Makes the command's blocks valid again, or fails the command. Returns the state, TURN. */
enum request_state lost_blocks_heal(struct request *r);
