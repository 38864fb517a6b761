/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group of namespaces with one owner: of several rblkd of a machine, the one that has the locks
 * of all its stores. The kernel gives such a lock away only when the last I/O of its holder is
 * over, however that one ended, and so nothing else has to be known of the others
 * (docs/ARCHITECTURE.md, "Ownership"). Control thread.
 */
#pragma once

#include "base/error.h"
#include "base/list.h"
#include "base/loop.h"
#include "target/engine/record/target.h"

struct backend;

/*
 *     STANDS_BY --> TAKES --> OWNS --> DRAINS --> CLOSES
 *         ^  ^        |       |  ^       |          |
 *         |  +--------+       +--|--> TAKES         |
 *         |                      +-------+          |
 *         +-----------------------------------------+
 *
 * From TAKES, OWNS and DRAINS to STANDS_BY at once, when a store is lost (lose.h).
 */
enum group_state {
	GROUP_STANDS_BY, /* it has no store, and tries to lock the first */
	GROUP_TAKES,	 /* it has some, and tries to lock the next */
	GROUP_OWNS,	 /* it has all: hosts have I/O */
	GROUP_DRAINS,	 /* the same, and hosts have no more; the last commands end */
	GROUP_CLOSES,	 /* hosts see stores that stand by; those before are synced and closed */
	GROUP_STATES,
};

/* Why a group moves. */
enum group_move_cause {
	GROUP_TAKEN, /* it had the locks: the owner before ended, or gave it away */
	GROUP_GIVEN, /* it let go by itself */
	GROUP_LOST,  /* another machine may have become the owner */
	GROUP_MOVE_CAUSES,
};

struct group_store {
	uint32_t nsid;
	struct backend *backend; /* owned: open, and so locked */
};

struct group {
	/* Thread: control */
	struct list node; /* of target->groups */
	struct target *target;
	char subnqn[NVMF_NQN_MAX + 1];
	uint32_t id;
	enum group_state state;
	uint64_t since_ns;
	struct group_moves {
		uint64_t n, last_s; /* last_s: since 1970; 0: never */
	} moves[GROUP_MOVE_CAUSES];
	const char *lost_why;	    /* the last time; a constant, or NULL */
	struct group_store *stores; /* owned; TAKES: those that it has and does not serve yet */
	unsigned n_stores;
	struct error why; /* what it waits for, or why it was not given; "": nothing */
	struct loop_timer timer;
};

/* As people and programs read it. A constant. */
const char *group_state_name(const struct group *group);
void group_move(struct group *group, enum group_state next);
/* Counts a move. */
void group_count(struct group *group, enum group_move_cause cause);
/* As metrics have it. A constant. */
const char *group_move_cause_name(enum group_move_cause cause);
/* NULL: it is in no configuration any more. */
const struct config_subsystem *group_config(const struct group *group);
/* Its namespaces as hosts see them now, by nsid; false: there are no more. Zeroed: the first.
 *     for (struct namespace_at at = {0}; group_next(group, &at);) */
bool group_next(const struct group *group, struct namespace_at *at);
/* Logs a line about the group. */
__attribute__((format(printf, 2, 3))) void group_log(const struct group *group, const char *fmt,
						     ...);
