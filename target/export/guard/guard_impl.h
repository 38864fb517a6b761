/* SPDX-License-Identifier: BSD-3-Clause */
/* A guard from inside, for the files that share it: see guard.h. */
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

/* The flags that its rules have now; any thread. */
static inline unsigned guard_flags(const struct guard *guard)
{
	return atomic_load_explicit(&guard->flags, memory_order_acquire);
}

/* Whether other rblkd change the record, so that only guard_refresh knows what is valid. */
static inline bool guard_is_shared(const struct guard *guard)
{
	return guard->store && guard->store->is_shared;
}

/* Whether the record has all of the state, also what a restart would end. */
static inline bool guard_keeps_all(const struct guard *guard)
{
	return guard->store && (guard->store->is_shared || guard->store->boot_id);
}
