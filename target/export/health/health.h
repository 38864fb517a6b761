/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SMART data (log page 02h) of a subsystem over its whole life: how often it was powered on, for
 * how long, and what hosts have done with it. There is a record for each subsystem, by its NQN,
 * until rblkd ends. A record adds up what earlier rblkds and removed namespaces have counted. The
 * counters of current namespaces are read where their pollers write them, so this costs the data
 * path nothing. health_file.c saves the records in the state directory, and event_log.h has the
 * history.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "target/export/health/record.h"

struct error;
struct snapshot;
struct state_directory;

enum {
	HEALTH_FORMAT = 1,
	HEALTH_RECORDS_MAX = 1024, /* records in the file */
};

#define HEALTH_FILE "health.json"

/*
 *     NOT_BEGUN ---> RESTS <---> SAVES
 */
enum health_saving {
	HEALTH_NOT_BEGUN, /* nothing is saved before health_begin, or after health_end */
	HEALTH_RESTS,
	HEALTH_SAVES, /* the saver runs */
};

struct health {
	/* Thread: never changes */
	struct state_directory *directory; /* borrowed; NULL: nothing is saved */
	char boot_id[HEALTH_BOOT_BYTES];   /* of the running kernel; "": unknown */
	bool has_lost_file;		   /* it was damaged: the last ends are unknown */

	pthread_mutex_t lock; /* a leaf, held during a sum; see struct health_record */

	/* Thread: control */
	struct list records;
	uint64_t n_follows;
	enum health_saving saving_state;
	struct loop *loop;		/* borrowed from health_begin to health_end */
	const struct list *controllers; /* borrowed: not empty while hosts are connected */
	struct loop_timer timer;
	bool is_busy;  /* hosts are connected: saves once a minute */
	bool has_news; /* something besides counters has changed */
	uint64_t saved_ns, saved_sum;
	struct event_log *saving; /* logs whose image is being saved, too */
	pthread_t saver;	  /* while HEALTH_SAVES */
	char *text;		  /* owned, while it is being saved; the saver reads it */
	_Atomic bool is_saved;
	_Atomic int error; /* of the last save: 0 or -errno */
};

/* ---- control ---- */

/* Restores what the directory (may be NULL) has. NULL and *error. */
struct health *health_new(struct state_directory *directory, struct error *error);
/* Once namespaces and controllers are gone. Accepts NULL. */
void health_free(struct health *health);
/* Before portals open: marks what is exported as on, durably. A failure is logged and retried; it
 * never stops rblkd. */
void health_begin(struct health *health, struct loop *loop, const struct snapshot *snapshot,
		  const struct list *controllers);
/* Another snapshot is current. */
void health_follow(struct health *health, const struct snapshot *snapshot);
/* Saves within a second or so, for an event that must not be lost. */
void health_save_soon(struct health *health);
/* A host has reset the controller of that id: an event, which is saved soon. */
void health_note_reset(struct health_record *record, uint16_t cntlid);
/* A host has connected. */
void health_note_host(struct health *health);
/* Before health_end: acknowledged writes of the record's namespaces may be lost, so its end counts
 * as a loss of power. */
void health_note_loss(struct health_record *record);
/* Once pollers have stopped: saves for the last time, and records that the end was in order.
 * Accepts NULL, and one that has not begun. */
void health_end(struct health *health);

/* ---- any thread ---- */

/* Whether log page 0Dh exists. Accepts NULL. */
static inline bool event_log_is_kept(const struct health_record *record)
{
	return record && record->health->directory;
}
