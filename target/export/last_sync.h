/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When rblkd ends in order, every store with a volatile cache is synced once more, and so is that
 * of a removed namespace (retire.h). So unflushed writes of hosts survive a loss of power that
 * follows. A sync that fails is recorded as any other I/O error, and counts as a loss of power in
 * the health of the subsystem (health.h).
 *
 * Control thread, once no connection can start another command.
 */
#pragma once

#include <stdbool.h>

#include "base/loop.h"

struct backend_thread;
struct last_sync_store;
struct namespace;
struct snapshot;

enum last_sync_state {
	LAST_SYNC_IDLE,
	LAST_SYNC_RUNNING,
	LAST_SYNC_OVER,
};

struct last_sync {
	/* Thread: control */
	enum last_sync_state state;
	struct loop *loop;
	struct backend_thread *thread; /* owned */
	struct loop_timer progress;
	struct loop_call end;
	struct last_sync_store *stores; /* owned */
	unsigned n, n_left, n_failed;
	uint64_t since_ns;
	/* The last store is synced, or has failed. */
	void (*done)(struct last_sync *sync);
	/* Called every few seconds after the record in the log; may be NULL. */
	void (*on_progress)(void);
};

/* Starts it; the caller has zeroed the struct and set the callbacks. done is called in a later
 * turn, even if there is nothing to sync. A second call does nothing. */
void last_sync_start(struct last_sync *sync, struct loop *loop, const struct snapshot *snapshot);
/* Once the loop has stopped. Accepts one that was never started. */
void last_sync_free(struct last_sync *sync);

/* ---- of one namespace; also for retire.h ---- */

/* Whether its store has a volatile cache, into which hosts could write. */
bool last_sync_is_needed(const struct namespace *ns);
/* Records what may be lost: in the log, beside the I/O error itself, and in the health of the
 * subsystem. */
void last_sync_note_failure(struct namespace *ns, int error);
/* Its path, or its kind: for people. */
const char *last_sync_store_name(const struct namespace *ns);
