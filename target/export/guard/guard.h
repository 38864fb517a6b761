/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guard decides which commands a namespace admits: reservations, write protection, bad blocks,
 * and commands that need a range exclusively. guard.c has the protocol. A guard belongs to the
 * medium and not to its description: a namespace that is configured anew takes over the guard of
 * the old one, so guards count references.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uuid/uuid.h>

#include "base/list.h"
#include "base/loop.h"
#include "target/export/guard/guard_saving.h"
#include "target/export/guard/pass.h"
#include "target/store/limits.h"
#include "target/store/record.h"
#include "transport/wire/fabrics.h"
#include "transport/wire/nvme.h"

struct bad_blocks;
struct guard;
struct reservation;

enum guard_flag { /* bits; usually 0 */
	GUARD_RESERVED = 1 << 0,
	GUARD_PROTECTED = 1 << 1,
	GUARD_BAD_BLOCKS = 1 << 2,
	GUARD_AGED = 1 << 3,	   /* a store has writes for long: aged.c */
	GUARD_HOST_DYING = 1 << 4, /* a lost association still has commands (siblings.c) */
};

enum guard_result {
	GUARD_ENTERED, /* admitted: it may touch the medium */
	GUARD_PARKED,  /* it waits for ops->on_free; the caller may remove pass->wait instead */
	GUARD_REFUSED,
};

/* Whether the owner of the turn must wait until this command has left. Poller of the command. */
typedef bool guard_visit_fn(struct pass *owner, struct pass *pass);
/* Continues the owner, on its own poller. */
typedef void guard_owner_fn(struct pass *owner);

struct guard_local {
	/* Thread: poller of this index */
	_Alignas(64) struct list passes;
	struct list parked; /* of struct pass (wait): they overlap the closed range */
	bool is_closed;	    /* the owner has its range exclusively */
	bool is_blocked;    /* a visit waits for commands; ops->on_blocked was called */
	unsigned n_awaited;
	struct guard *guard;
	struct loop_msg msg; /* of the owner: visit, open */
};

struct guard {
	/* Thread: any; the owner of the turn changes flags and pointers */
	_Atomic unsigned flags;			   /* of enum guard_flag */
	_Atomic(struct reservation *) reservation; /* NULL: no host was ever registered */
	_Atomic(struct bad_blocks *) bad_blocks;   /* NULL: none */
	_Atomic unsigned write_protect;		   /* enum nvme_write_protect */
	_Atomic bool is_unkept;	 /* the record may differ from this: guard_state.c */
	_Atomic int state_error; /* why it was last not kept or read; 0: that went well */
	_Atomic uint64_t n_state_errors, n_state_conflicts;

	/* Thread: never changes */
	uuid_t uuid;
	struct record_store *store;	/* borrowed; NULL: nothing is saved */
	char record[RECORD_NAME_BYTES]; /* its name there */
	/* the medium does not survive a restart, so its bad blocks do not either */
	bool is_volatile;

	/* Thread: control */
	unsigned n_refs;

	/* a leaf: protects turns and owner; threads that are no pollers read reservation under it,
	 * and its replacement takes it, too */
	pthread_mutex_t lock;
	struct list turns; /* of struct pass (wait), in order of arrival */
	struct pass *owner;
	struct list aged; /* of struct pass (aged_node) */

	/* Thread: owner's poller; others read during a visit */
	uint64_t slba, n_blocks; /* the owner's exclusive range */
	bool closes;
	struct guard_kept next; /* the state that the owner is making durable: guard_state.h */
	guard_visit_fn *visit;
	guard_owner_fn *on_visited;
	struct loop_msg msg; /* to the owner: it has the turn, or its visit is over */
	struct guard_saving saving;
	_Atomic unsigned n_pending; /* pollers that have not answered */

	struct guard_local locals[POLLERS_MAX];
};

/* ---- poller of the command ---------------------------------------------------------------- */

/* Just before the command touches the medium. GUARD_REFUSED sets *ret_status. */
enum guard_result guard_enter(struct pass *pass, enum nvme_status *ret_status);
/* NVME_OK; or the status if reservation, protection or bad blocks forbid the command now. */
enum nvme_status guard_check(const struct pass *pass);
/* Whether a block of them was declared uncorrectable. */
bool guard_has_bad(const struct guard *guard, uint64_t slba, uint64_t n_blocks);
static inline unsigned guard_flags(const struct guard *guard)
{
	return atomic_load_explicit(&guard->flags, memory_order_acquire);
}

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

/* Of a command, or of a response whose data is being sent. It has not begun. */
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

/* Whether the command touches one of these blocks; UINT64_MAX: all of them. */
bool guard_overlaps(const struct pass *pass, uint64_t slba, uint64_t n_blocks);
