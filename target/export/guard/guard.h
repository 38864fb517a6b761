/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands before a namespace: reservations, write protection, bad blocks, and commands that must
 * be alone. guard.c tells how. A guard belongs to the medium, not to one description of it: a
 * namespace that is described anew takes over the guard of the old one.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uuid/uuid.h>

#include "base/list.h"
#include "base/loop.h"
#include "target/export/guard/pass.h"
#include "transport/wire/fabrics.h"
#include "transport/wire/nvme.h"

struct bad_blocks;
struct controller;
struct guard;
struct poller;
struct queue;
struct request;
struct reservation;
struct state_directory;

enum {
	GUARD_POLLERS = 8, /* POLLERS_MAX */
};

enum guard_flag { /* bits; 0 is the rule */
	GUARD_RESERVED = 1 << 0,
	GUARD_PROTECTED = 1 << 1,
	GUARD_BAD_BLOCKS = 1 << 2,
};

/* Whether the owner of the turn must wait until this command has left. Poller of the command. */
typedef bool guard_visit_fn(const struct request *owner, struct pass *pass);

/* What is kept over a restart: guard_state.h. Borrowed. */
struct guard_kept {
	struct reservation *reservation;
	struct bad_blocks *bad_blocks;
	unsigned write_protect;
};

struct guard_local {
	/* Thread: poller of this index */
	_Alignas(64) struct list passes;
	struct list parked; /* of struct request (wait): they overlap who is alone */
	bool is_closed;	    /* somebody is alone in his range */
	unsigned n_awaited;
	struct poller *poller; /* during a visit that waits: hosts that stall it are watched */
	struct guard *guard;
	struct loop_msg msg; /* the owner's: visit, open */
};

struct guard {
	/* Thread: any; flags and pointers are changed by who has the turn */
	_Atomic unsigned flags;			   /* of enum guard_flag */
	_Atomic(struct reservation *) reservation; /* NULL: nobody is registered */
	_Atomic(struct bad_blocks *) bad_blocks;   /* NULL: none */
	_Atomic unsigned write_protect;		   /* enum nvme_write_protect */
	_Atomic bool is_unkept; /* the file may say something else than these: guard_state.c */

	/* Thread: never changes */
	uuid_t uuid;
	struct state_directory *directory; /* borrowed; NULL: nothing is kept */
	bool is_volatile;		   /* the medium forgets, so do its bad blocks */

	/* Thread: control */
	unsigned n_refs;

	pthread_mutex_t lock; /* a leaf: guards turns and owner; and reservation is only replaced
			       * with it, for threads that are no pollers */
	struct list turns;    /* of struct request (wait), in order of arrival */
	struct request *owner;

	/* Thread: who has the turn; pollers read during a visit */
	uint64_t slba, n_blocks; /* where the owner is alone */
	bool closes;
	struct guard_kept next; /* what is being made valid: guard_state.h */
	guard_visit_fn *visit;
	void (*on_visited)(struct request *owner);
	_Atomic unsigned n_pending; /* pollers that have not answered */

	struct guard_local locals[GUARD_POLLERS];
};

/* Control. NULL without memory. */
struct guard *guard_new(const uuid_t uuid, struct state_directory *directory, bool is_volatile);
void guard_ref(struct guard *guard);
/* Nobody is in it any more. Accepts NULL. */
void guard_unref(struct guard *guard);

/* Any thread. Whether a host of another NQN is registered with this identifier: then *ret_nqn is that. */
bool guard_is_of_other(struct guard *guard, const uint8_t hostid[16], const char *hostnqn,
		       char ret_nqn[NVMF_NQN_MAX + 1]);

/* ---- poller of the command ---------------------------------------------------------------- */

/* Just before the command touches the medium: REQUEST_GONE when it may (the caller goes on), else
 * the state to return: parked, or the end with a status. */
unsigned guard_enter(struct request *r);
/* Whether reservation, protection and bad blocks allow the command now. */
enum nvme_status guard_check(const struct request *r);
bool guard_has_bad(const struct guard *guard, uint64_t slba, uint64_t n_blocks);
static inline unsigned guard_flags(const struct guard *guard)
{
	return atomic_load_explicit(&guard->flags, memory_order_acquire);
}

/* Turns: who changes what the guard keeps, or must be alone, does so one after the other. on_turn is
 * called on the request's poller, never from inside; until guard_end_turn no other has it. All the
 * while the request is in state REQUEST_TURN, outside. One that comes too late ends the command. */
unsigned guard_take_turn(struct request *r, void (*on_turn)(struct request *r));
/* Shows the owner every command of every poller, and calls on_visited when those that visit has
 * chosen have left. What was published before the visit is seen by all commands after it. */
void guard_visit(struct request *r, guard_visit_fn *visit, void (*on_visited)(struct request *r));
/* Waits for all that touch the owner's range, and parks those that come, until guard_open. */
void guard_be_alone(struct request *r, void (*on_alone)(struct request *r));
void guard_open(struct request *r, void (*on_open)(struct request *r));
void guard_end_turn(struct request *r);
/* The same, and answers the command. */
void guard_finish_turn(struct request *r, enum nvme_status status);
/* Any thread, with the turn or before anybody enters. */
void guard_set_flag(struct guard *guard, enum guard_flag flag, bool is_set);
