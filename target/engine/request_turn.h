/* SPDX-License-Identifier: BSD-3-Clause */
/* A command at the guard of its namespace (export/guard). Everything here runs on the queue's
 * poller. */
#pragma once

#include "target/engine/request.h"

struct queue;

/* The command of a pass that is one (is_command). */
static inline struct request *request_of_pass(struct pass *pass)
{
	return container_of(pass, struct request, pass);
}

/* Control, when the queue is made and its poller is known. */
void request_turn_init(struct queue *queue);

/* Just before the command touches the medium. GONE: it may. Else the state to return: PARKED, or
 * RESPOND because it is aborted or the guard refuses it. */
enum request_state request_enter(struct request *r);

/* A Preempt and Abort has taken the registration of this command's host: the command is aborted
 * unless it has begun. */
void request_preempt(struct pass *pass);

/* A direct Read cannot have its data where it lies, for a write is at one of its blocks: leaves the
 * guard, and goes through a buffer. Returns the state, TAKE_BUFFER. */
enum request_state request_use_buffer(struct request *r);

/* The command gets in line for the turn of its guard, outside. on_turn is called when it has the
 * turn; a command that was aborted meanwhile, or whose controller is not ready any more, ends
 * instead. Returns the state, TURN. */
enum request_state request_take_turn(struct request *r, void (*on_turn)(struct request *r));
/* Makes guard->next durable (guard_save). A failure is logged, then on_saved is called with
 * -errno. */
void request_save(struct request *r, bool is_skipped,
		  void (*on_saved)(struct request *r, int error));
/* Ends the turn. The command ends with this status; after NVME_OK it goes on if it has
 * after_turn. */
void request_finish_turn(struct request *r, enum nvme_status status);
