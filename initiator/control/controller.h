/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One association with a controller: from an address to "live", and down again. One attempt; the
 * owner (reconnect.c, discover.c) decides about further ones.
 */
#pragma once

#include "initiator/control/controller_impl.h"

void controller_init(struct controller *c, struct loop *loop, struct cm *cm,
		     const struct volume_config *config, enum controller_kind kind,
		     const struct controller_ops *ops, void *context);
/* IDLE, the domain closed. on_live or on_down follow, not from inside. */
void controller_start(struct controller *c);
/* Live: normal shutdown, then as controller_stop. */
void controller_shut_down(struct controller *c);
/* Not IDLE. on_stopped follows, not from inside. A second call has no effect. */
void controller_stop(struct controller *c);
/* After on_stopped: true, once, if the Connect command was not answered. */
bool controller_may_ask_again(struct controller *c);
/* IDLE, and everything registered in the domain is gone. */
void controller_close_domain(struct controller *c);
