/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands that make an association: from Connect to live, and the normal shutdown.
 * Control loop.
 */
#pragma once

struct controller;

/* CONNECTING is done: enters SENDING_CONNECT, and all that follows. */
void controller_send_connect(struct controller *c);
/* LIVE: the normal shutdown; done: it is over, in order or not. */
void controller_send_shut_down(struct controller *c, void (*done)(struct controller *c));
