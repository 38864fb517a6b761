/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Used by every part of an association: its states, its failure, its commands. Control loop only.
 * The parts above (setup, authentication, keep alive, events, log pages) call this file;
 * controller.c, which starts and stops them, calls the parts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "initiator/control/controller_state.h"
#include "transport/wire/nvme.h"

struct admin_command;
struct controller;

const char *controller_state_name(const struct controller *c);

/* Calls on_down with c->error, which the caller has filled; then waits for controller_stop. */
void controller_fail(struct controller *c);
/* "lost the connection: reason", or in a state before LIVE "cannot connect ...". */
void controller_fail_connection(struct controller *c, bool is_timeout, const char *reason);
/* Sends with the admin timeout; a full queue fails the association (it cannot happen). */
void controller_submit(struct controller *c, struct admin_command *command);
struct admin_command controller_identify(const struct controller *c, enum nvme_cns cns,
					 uint32_t nsid);
struct admin_command controller_get_log(enum nvme_log log, uint64_t offset, uint32_t n_bytes);

void controller_move(struct controller *c, enum controller_state next);
/*
 * Whether the exchange has failed by this host's own check. Then c->error has the reason, however
 * the notice to the target ends: the target may close the connection without an answer.
 */
bool controller_has_refused(struct controller *c);
