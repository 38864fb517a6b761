/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guard decides which commands a namespace admits: reservations, write protection, bad blocks,
 * and commands that need a range exclusively. guard.c has the protocol. A guard belongs to the
 * medium and not to its description: a namespace that is configured anew takes over the guard of
 * the old one, so guards count references.
 */
#pragma once

#include "target/export/guard/guard_impl.h"

enum guard_result {
	GUARD_ENTERED, /* admitted: it may touch the medium */
	GUARD_PARKED,  /* it waits for ops->on_free; the caller may remove pass->wait instead */
	GUARD_REFUSED,
};

/* ---- poller of the command ---------------------------------------------------------------- */

/* Just before the command touches the medium. GUARD_REFUSED sets *ret_status. */
enum guard_result guard_enter(struct pass *pass, enum nvme_status *ret_status);
/* NVME_OK; or the status if reservation, protection or bad blocks forbid the command now. */
enum nvme_status guard_check(const struct pass *pass);
/* Whether a block of them was declared uncorrectable. */
bool guard_has_bad(const struct guard *guard, uint64_t slba, uint64_t n_blocks);

/* ---- turns: poller of the command ----------------------------------------------------------- */

/* Turns serialize commands that modify the guard or need exclusive access. The command leaves the
 * medium. ops->on_turn is called later; until guard_end_turn no other command has the turn. */
void guard_take_turn(struct pass *pass);
/* Passes the turn to the next command. */
void guard_end_turn(struct pass *owner);
/* Calls visit for every command of every poller, and on_visited when those for which it returned
 * true have left. Later commands obey what the owner published before. */
void guard_visit(struct pass *owner, guard_visit_fn *visit, guard_owner_fn *on_visited);
/* For guard_visit: waits for the pollers only, not for commands. */
guard_visit_fn guard_visit_none;
/* Waits for all commands that touch the owner's range, and parks new ones until guard_open. */
void guard_be_alone(struct pass *owner, guard_owner_fn *on_alone);
void guard_open(struct pass *owner, guard_owner_fn *on_open);

/* ---- passes: poller of the command ---------------------------------------------------------- */

/* The pass of a command, or of a response whose data is being sent. It has not begun. */
void pass_init(struct pass *pass, struct guard_client *client, bool is_command);
/* Begins outside the namespace. pass_show must follow before the loop's turn ends. */
void pass_begin(struct pass *pass, struct guard *guard);
/* From now on visits see the command. Accepts a pass that has not begun or is shown already. */
void pass_show(struct pass *pass);
/* Leaves the medium, perhaps to enter again or take a turn. Accepts one that never entered. */
void pass_leave(struct pass *pass);
/* Ends the pass. Accepts a zeroed one. */
void pass_end(struct pass *pass);
/* A defect has lost the command, and nothing will bring it back: ends its pass, so that visits go
 * on. Leaves alone a command that is not inside, or that has the turn. */
void pass_abandon(struct pass *pass);
/* Moves an admitted pass to another object of the same queue, where visits see it. */
void pass_move(struct pass *to, struct pass *from);
