/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns: a command changes the guard of its namespace (export/guard), or has a range exclusively.
 * And what guards call when a parked command may go on. Poller of the queue.
 */
#pragma once

#include <stdbool.h>

#include "target/engine/record/request_state.h"
#include "transport/wire/nvme.h"

struct pass;
struct queue;
struct request;
struct target;

/* Control, when it creates the queue and has chosen the poller. */
void request_turn_init(struct queue *queue);

/* guard_ops.on_blocked of any client in this target: the poller of that index has commands that a
 * visit waits for, or no longer has. */
void turn_on_blocked(struct target *target, unsigned index, bool is_blocked);

/* Preempt and Abort has removed the registration of this command's host: aborts the command unless
 * it has begun. */
void request_preempt(struct pass *pass);

/* Puts a command that is not admitted in line for a turn of its guard. on_turn is called when it
 * has the turn. If the command was aborted meanwhile, or its controller is no longer ready, the
 * command ends instead. Returns the state, TURN. */
enum request_state request_take_turn(struct request *r, void (*on_turn)(struct request *r));
/* Before a command looks at state that another rblkd may have changed: calls on_fresh when that of
 * the guard is valid. If it cannot be read, logs that and ends the command. A command whose
 * controller was reset meanwhile ends, too: a cluster may answer late. */
void request_refresh(struct request *r, void (*on_fresh)(struct request *r));
/* Makes guard->next durable (guard_save), then calls on_saved. Logs a failure; on_saved then gets
 * -errno. If another rblkd has changed the state meanwhile, calls the command's on_turn again. */
void request_save(struct request *r, bool is_skipped,
		  void (*on_saved)(struct request *r, int error));
/* Ends the turn. The command ends with this status; after NVME_OK it continues in after_turn, if
 * that is set. */
void request_finish_turn(struct request *r, enum nvme_status status);
