/* SPDX-License-Identifier: BSD-3-Clause */
/* The Connect command between poller and control thread (connect.c). */
#pragma once

struct connect_op;

/* Control. For fence_new: a Connect that was held is decided or refused, and answered. */
void connect_on_release(struct connect_op *op);
