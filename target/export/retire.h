/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Removed namespaces, until they are closed: their last commands end, then their store is synced.
 * Its hosts cannot flush any more what they have written. Control thread, which owns them.
 */
#pragma once

#include "base/loop.h"
#include "target/export/snapshot.h"

struct backend_thread;

struct retire {
	/* Thread: control */
	struct loop *loop;
	/* A removed namespace (node) is in one of these, in this order: */
	struct list busy;    /* commands may be under way */
	struct list syncing; /* its backend has ns->last_sync */
	struct list synced;  /* closed in the loop's next turn */
	struct loop_call close;
	struct loop_timer timer;       /* looks at busy ones */
	struct loop_timer progress;    /* a record in the log while a sync takes long */
	struct backend_thread *thread; /* owned; NULL: nothing was synced yet */
	/* No sync runs any more, after one did. May be NULL. */
	void (*on_synced)(struct retire *retire);
	/* Called every few seconds after that record; may be NULL. */
	void (*on_progress)(void);
};

/* Control initializes the loop before it retires the first snapshot. */
void retire_init(struct retire *retire, struct loop *loop);
/* No poller can find the snapshot any more: a grace period has passed since its removal. */
void retire_snapshot(struct retire *retire, struct snapshot *snapshot);
/* Whether a removed namespace still has the store at this path, and its lock. */
bool retire_has(const struct retire *retire, const char *path);
/* Ends I/O that lost stores, which are removed, have held back (ops.let_go). */
void retire_let_go(struct retire *retire);
/* rblkd ends, and no host has a connection: false while stores are synced, on_synced follows. */
bool retire_is_synced(struct retire *retire);
/* No queue uses the device any more: its registrations end. */
void retire_forget_device(struct retire *retire, unsigned device_index);
/* Once pollers have stopped and nothing is synced: closes all that are left. */
void retire_end(struct retire *retire);
