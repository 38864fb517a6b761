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
#include "target/export/health/event_log.h"
#include "transport/wire/fabrics.h"

struct error;
struct namespace;
struct snapshot;
struct state_directory;

enum {
	HEALTH_FORMAT = 1,
	HEALTH_RECORDS_MAX = 1024, /* records in the file */
	HEALTH_BOOT_BYTES = 40,	   /* a UUID as text, with NUL */
};

#define HEALTH_FILE "health.json"

struct health_figures {
	uint64_t n_reads, n_writes;	    /* commands */
	uint64_t read_units, written_units; /* of 512 bytes */
	uint64_t n_media_errors, n_errors;  /* n_errors: entries of error logs */
	uint64_t power_cycles;
	uint64_t unsafe_shutdowns; /* the machine went down: unflushed writes may be lost */
	uint64_t crashes;	   /* rblkd alone ended without order: no write is lost */
	uint64_t power_on_s;
};

struct health_record {
	/* Thread: never changes */
	char nqn[NVMF_NQN_MAX + 1];

	/* Thread: control */
	struct list node;
	struct health *health;
	uint64_t seen;			 /* the last call of health_follow that found it exported */
	bool has_begun;			 /* its power cycle for this rblkd is counted */
	bool was_on;			 /* according to the file: it did not end in order */
	char boot_id[HEALTH_BOOT_BYTES]; /* of the boot in which it was last on; "": unknown */

	/* Thread: any */
	_Atomic uint64_t n_errors;

	/* Protected by health->lock; control writes */
	struct health_figures past; /* without n_errors and what current namespaces count */
	uint64_t on_since_ns;	    /* 0: not exported */
	struct list namespaces;	    /* of struct namespace (health_node) */

	struct event_log events; /* its threads: event_log.h */
};

struct health {
	/* Thread: never changes */
	struct state_directory *directory; /* borrowed; NULL: nothing is saved */
	char boot_id[HEALTH_BOOT_BYTES];   /* of the running kernel; "": unknown */

	pthread_mutex_t lock; /* a leaf, held during a sum; see struct health_record */

	/* Thread: control */
	struct list records;
	uint64_t n_follows;
	struct loop *loop;		/* NULL: not begun */
	const struct list *controllers; /* borrowed: not empty while hosts are connected */
	struct loop_timer timer;
	bool is_busy;  /* hosts are connected: saves once a minute */
	bool has_news; /* something besides counters has changed */
	uint64_t saved_ns, saved_sum;
	struct event_log *saving; /* logs whose image is being saved, too */
	pthread_t saver;	  /* runs while text is set */
	char *text;		  /* owned; the saver reads it */
	_Atomic bool is_saved;
	_Atomic int error; /* of the last save: 0 or -errno */
};

/* ---- control ---- */

/* Restores what the directory (may be NULL) has. NULL and *error. */
struct health *health_new(struct state_directory *directory, struct error *error);
/* Once namespaces and controllers are gone. Accepts NULL. */
void health_free(struct health *health);
/* The record of that subsystem, which it creates if needed; NULL: no memory. */
struct health_record *health_find(struct health *health, const char *nqn);
/* Counts a namespace for the record; ends that, and accepts one that was not counted. */
void health_add_namespace(struct health_record *record, struct namespace *ns);
void health_remove_namespace(struct namespace *ns);

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

void health_read(struct health_record *record, struct health_figures *ret_figures);
/* smart.c: the page except its warnings. record NULL: nothing has been counted. */
void health_fill_smart(struct health_record *record, struct nvme_smart_log *smart);
/* smart.c: the warnings of all its namespaces. */
uint8_t health_critical_warning(struct health_record *record);
/* Counts an entry of an error log, and returns its number. */
static inline uint64_t health_count_error(struct health_record *record)
{
	return atomic_fetch_add_explicit(&record->n_errors, 1, memory_order_relaxed) + 1;
}

/* Whether log page 0Dh exists. Accepts NULL. */
static inline bool event_log_is_kept(const struct health_record *record)
{
	return record && record->health->directory;
}

/* ---- health_file.c: control ---- */

/* Restores the saved records. 0; or -errno and *error. */
int health_load(struct health *health, struct error *error);
/* The text for the file now; the caller frees it. NULL: no memory. */
char *health_format(struct health *health);
