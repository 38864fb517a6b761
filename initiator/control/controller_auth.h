/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AUTHENTICATING: the admin queue's exchange, between the Connect command and everything else.
 * Control loop, which computes here for some milliseconds; nothing else is live at that time.
 */
#pragma once

#include <stdint.h>

struct controller;

/* SENDING_CONNECT is done, and Connect succeeded with this result. done: the controller accepts
 * commands. */
void controller_authenticate(struct controller *c, uint64_t connect_result,
			     void (*done)(struct controller *c));
/* For one association. 0, or -errno with c->error. */
int controller_load_keys(struct controller *c);
void controller_release_keys(struct controller *c);
