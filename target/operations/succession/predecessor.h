/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The side of a succession that has the stores: rblkctl upgrade. It starts the successor, lets it
 * listen in its place, tells hosts to connect there, ends, and hands over. Until the
 * successor listens, nothing has changed if it fails. After that this process ends in any case; if
 * the successor does not serve then, this one starts again, from the program that it is, by its
 * own handover.
 *
 * A host that was told resets its controller, and a slow one is not ready when its time is over. A
 * Linux host whose admin queue ends in the middle of a reset waits for an answer until its admin
 * timeout, 60 s; and one that loses an I/O queue before it begins waits for its reconnect delay. So
 * its queues stay (connection_part), which need no store, and nothing waits for them. Control
 * thread.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "target/engine/record/target.h"
#include "target/export/handover.h"

/*
 *     RESTS <---> PREPARES ---> OPENS ---> MOVES ---> LEAVES ---> PARTS ---> SUCCEEDED
 *       ^                         |          |          |           |
 *       +-------------------------+----------+----------+           +------> FAILED
 */
enum predecessor_state {
	PREDECESSOR_RESTS,
	PREDECESSOR_PREPARES,  /* the successor starts */
	PREDECESSOR_OPENS,     /* the portals are closed here, and open there */
	PREDECESSOR_MOVES,     /* hosts have been told */
	PREDECESSOR_LEAVES,    /* what is left is disconnected, or parts */
	PREDECESSOR_PARTS,     /* the successor opens the stores; hosts leave what has parted */
	PREDECESSOR_SUCCEEDED, /* it serves; the same of hosts */
	PREDECESSOR_FAILED,    /* it does not serve: this process starts again */
	PREDECESSOR_STATES,
};

struct predecessor {
	/* Thread: control */
	struct target *target;
	/* The last host has left, or hosts had their time: connections end, and then the loop. */
	void (*leave)(struct predecessor *predecessor);
	void (*on_succeeded)(const struct predecessor *predecessor); /* the successor serves */
	char *const *argv;					     /* of this process; borrowed */
	char *path; /* owned: where its program was when it started */
	enum predecessor_state state;
	pid_t successor_pid; /* 0: there is none */
	struct loop_fd socket;
	struct loop_timer limit;
	struct loop_timer parting; /* hosts that have not left are disconnected */
	uint64_t moving_ns;
	struct handover handover;
	struct error failure; /* of the last succession; message "": none */
};

/* argv: borrowed, of main. */
void predecessor_init(struct predecessor *predecessor, struct target *target, char *const *argv);
void predecessor_free(struct predecessor *predecessor);

/* Starts the successor. 0; or -errno and *error, and nothing has changed. */
int predecessor_begin(struct predecessor *predecessor, struct error *error);
/* rblkd ends for another reason: the successor ends, too. */
void predecessor_cancel(struct predecessor *predecessor);
/* A connection is gone. */
void predecessor_check(struct predecessor *predecessor);
/* Whether this process ends for its successor. */
bool predecessor_is_ending(const struct predecessor *predecessor);

/* Once pollers have stopped, and before the stores are closed. */
void predecessor_collect(struct predecessor *predecessor);
/* Once stores, state directory and control socket are closed: the successor may have them. */
void predecessor_give(struct predecessor *predecessor);
bool predecessor_has_given(const struct predecessor *predecessor);
/* Runs the loop until the successor serves, or has failed, and hosts have left: for PART_S at
 * most. */
void predecessor_see_off(struct predecessor *predecessor);
/* Hosts have no more time. */
void predecessor_end_hosts(struct predecessor *predecessor);
/* The last of this process: returns if the successor serves. Otherwise it starts again. */
void predecessor_finish(struct predecessor *predecessor);
/* Whether the successor has died since. Its hosts may have changed what was handed over, so this
 * process does not start again: it fails (logged), and its service manager starts it. */
bool predecessor_has_outlived(struct predecessor *predecessor);

/* "preparing", "moving"... */
const char *predecessor_state_name(const struct predecessor *predecessor);
