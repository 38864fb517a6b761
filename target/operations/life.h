/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a target: how struct target is built, and taken apart. rblkd's main.c and the tests
 * that run a target in their own process all use it. Control thread.
 *
 *     target_init --> pollers_start --> target_export --> target_listen
 *     (ticks_init     or poller_init                          |      rblkd runs target->loop
 *      before it)     for each                                v
 *     target_deinit <-- target_withdraw <-- pollers_stop <-- target_close, connections end
 *
 * Everything is built before a portal listens, so a host that connects finds everything ready. A
 * poller has a thread of its own (pollers_start), or the caller turns its loop (poller_init).
 *
 * A target that takes over from another process listens first, and exports when that one has let go
 * of the stores: Connects wait in between (operations/succession).
 */
#pragma once

#include "base/error.h"
#include "target/engine/record/target.h"

struct conf;
struct handover;
struct state_directory;

/* The caller's decisions. All is borrowed until target_deinit. */
struct target_parts {
	struct target_config *config; /* a change swaps its contents: change/apply.h */
	struct poller *pollers;	      /* NULL: pollers_start makes them */
	unsigned n_pollers;
	void (*check_stop)(struct target *target); /* see struct target */
	const char *config_path;    /* where a change reads the configuration again */
	const char *control_socket; /* NULL: the configuration's */
	bool is_log_level_given;    /* a change leaves the level of the log alone */
};

/* Fills all of *target: the loop, the connection manager, the tables of commands, and registries
 * without entries. 0 or -errno; the caller calls target_deinit in either case. */
int target_init(struct target *target, const struct target_parts *parts);
/* target->life becomes that. */
void target_move(struct target *target, enum target_life next);
/* Fills the slots of the portals. 0 or -ENOMEM. target_export does it if nothing else has. */
int target_prepare(struct target *target);
/* The stock that a target serves from. Borrowed until target_withdraw, except handover, whose
 * memory is closed when the namespaces have it. */
struct target_stock {
	struct state_directory *state; /* NULL: nothing survives a restart */
	struct state_directory
		*groups;	   /* of group_directory; NULL: no group has an owner by lock */
	struct handover *handover; /* what another process has left; NULL: nothing */
};

/* Opens the stores of the configuration but those of groups with an owner, and serves Connects. 0;
 * or -EINVAL, and conf has each error with its line. The caller may try again, and calls
 * target_withdraw in either case. */
int target_export(struct target *target, const struct target_stock *stock, struct conf *conf);
/* Opens the portals. Pollers must be there. 0 or -errno (logged). */
int target_listen(struct target *target);
/* Nothing new is accepted. Connections go on. Accepts one that does not listen. */
void target_close(struct target *target);
/* Connections that are left have parted (connection_part): they find no namespace from now on, and
 * pollers may run on while the stores are closed. */
void target_hide(struct target *target);
/* With which stores; NULL: none. */
struct snapshot *target_stores(const struct target *target);
/* Once they are hidden, or no poller runs: saves what must survive, and closes the stores. Accepts
 * none. */
void target_close_stores(struct target *target);
/* The same, and once pollers are freed all else that they have used. */
void target_withdraw(struct target *target);
/* Accepts one that was half built. */
void target_deinit(struct target *target);
