/* SPDX-License-Identifier: BSD-3-Clause */
/* Between controller.c (connection, going down) and controller_setup.c (commands until
 * live). */
#pragma once

#include "initiator/control/controller.h"

void controller_move(struct controller *c, enum controller_state next);
/* SENDING_CONNECT is done, and was granted with this result. */
void controller_authenticate(struct controller *c, uint64_t connect_result);
/*
 * Whether the exchange has failed by what we found wrong ourselves; then c->error says it, whatever
 * became of telling the target: it may end the connection without an answer.
 */
bool controller_has_refused(struct controller *c);
/* The target is content: enters READING_CAP. */
void controller_read_cap(struct controller *c);
/* For one association. 0, or -errno with c->error. */
int controller_load_keys(struct controller *c);
void controller_release_keys(struct controller *c);
/* CONNECTING is done: enters SENDING_CONNECT, and all that follows. */
void controller_send_connect(struct controller *c);

/* async_event.c: of the notices that we listen to, those the target has. */
uint32_t async_event_mask(const struct controller *c);
