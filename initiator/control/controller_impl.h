/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a controller among themselves:
 *
 *   controller.c            connection, start, stop
 *     controller_setup.c    commands until live, and those of the normal shutdown
 *       controller_auth.c, keep_alive.c, async_event.c, ana_log.c, power.c
 *         controller_command.c    states, failure, sending
 */
#pragma once

#include "initiator/control/controller.h"

void controller_move(struct controller *c, enum controller_state next);
/* SENDING_CONNECT is done, and Connect succeeded with this result. done: the controller accepts
 * commands. */
void controller_authenticate(struct controller *c, uint64_t connect_result,
			     void (*done)(struct controller *c));
/*
 * Whether the exchange has failed by this host's own check. Then c->error has the reason, however
 * the notice to the target ends: the target may close the connection without an answer.
 */
bool controller_has_refused(struct controller *c);
/* For one association. 0, or -errno with c->error. */
int controller_load_keys(struct controller *c);
void controller_release_keys(struct controller *c);
/* CONNECTING is done: enters SENDING_CONNECT, and all that follows. */
void controller_send_connect(struct controller *c);
/* LIVE: the normal shutdown; done: it is over, in order or not. */
void controller_send_shut_down(struct controller *c, void (*done)(struct controller *c));

/* async_event.c: the notices that this host handles and the target supports. */
uint32_t async_event_mask(const struct controller *c);
