/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of a lane on its loop, and what ends a connection: an error, or a command
 * without an answer. I/O loop only.
 */
#pragma once

#include "initiator/io/lane_impl.h"

/* Checks the move against the table. */
void lane_move(struct lane *lane, enum lane_state next);
/* The association cannot be trusted any more: notifies control, once, and sends nothing further. */
__attribute__((format(printf, 2, 3))) void lane_fail(struct lane *lane, const char *fmt, ...);
/* A command was started: from now on its answer is due. */
void lane_watch_timeout(struct lane *lane);
/* io_timer has expired. */
void lane_on_timeout(struct loop_timer *timer);
