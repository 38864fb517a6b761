/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The side of a succession that takes over. It is started by its predecessor (predecessor.h), and
 * listens while that one ends; Connects wait (association/fence.c). It opens the stores when the
 * predecessor says so. If that one dies without a word it tries to open them, again and again: the
 * kernel keeps their locks until the dead one's last I/O is over. Control thread.
 */
#pragma once

#include "base/error.h"
#include "target/engine/record/target.h"
#include "target/operations/succession/restore.h"

/* The number of the inherited socket, in the environment. */
#define SUCCESSOR_VARIABLE "RBLKD_PREDECESSOR"

/*
 *     PREPARES ---> LISTENS ---> SERVES
 *         |            |           ^
 *         |            +--> WAITS -+
 *         +------------------------+   the process before has started again
 */
enum successor_state {
	SUCCESSOR_PREPARES,
	SUCCESSOR_LISTENS, /* and holds Connects */
	SUCCESSOR_WAITS,   /* for the locks of a predecessor that has died */
	SUCCESSOR_SERVES,
	SUCCESSOR_STATES,
};

struct successor {
	/* Thread: control */
	struct target *target;
	/* Opens the stores and all else that the predecessor had, by its handover (NULL: there is
	 * none). EXIT_OK; or another code, and why is printed, but for EXIT_BUSY only if
	 * is_last. */
	enum exit_code (*open)(struct successor *successor, struct handover *handover,
			       bool is_last);
	void (*on_serving)(struct successor *successor); /* once portals listen, too */
	enum successor_state state;
	struct loop_fd socket;
	struct loop_timer retry;
	uint64_t waits_since_ns;
	struct handover_parts parts;	/* owned */
	char undone[ERROR_MESSAGE_MAX]; /* why a succession was undone; "": it was not */
	const char *loss;		/* what was not handed over, and why; NULL: nothing */
	char version_before[32];	/* "": not known */
	uint64_t held_ns;		/* from when hosts were told until it served */
};

/* Whether this process is to take over; the answer is there once. *ret_socket: owned. */
bool successor_is_wanted(int *ret_socket);
/* Says that devices and pollers are there, and waits for the predecessor from then on. socket:
 * owned. 0 or -errno. */
int successor_start(struct successor *successor, struct target *target, int socket);
void successor_free(struct successor *successor); /* accepts one that was not started */
