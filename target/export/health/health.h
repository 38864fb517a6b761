/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What SMART (log page 02h) tells of a subsystem over its whole life: how often it was powered on,
 * for how long, and what hosts have done with it. There is a record for each subsystem, by its NQN,
 * until rblkd ends. What was counted by namespaces that are gone, and by earlier rblkd, is added up
 * in it; what the namespaces of now have counted is read where their pollers count it, so this
 * costs the data path nothing. health_file.c keeps it all in the state directory; and event_log.h
 * what has happened.
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

struct namespace;
struct snapshot;
struct state_directory;

enum {
	HEALTH_FORMAT = 1,
	HEALTH_RECORDS_MAX = 1024, /* that are kept */
	HEALTH_BOOT_BYTES = 40,	   /* a UUID as text, with NUL */
};

#define HEALTH_FILE "health.json"

struct health_figures {
	uint64_t n_reads, n_writes;	    /* commands */
	uint64_t read_units, written_units; /* of 512 bytes */
	uint64_t n_media_errors, n_errors;  /* n_errors: entries of error logs */
	uint64_t power_cycles;
	uint64_t
		unsafe_shutdowns; /* the machine went down under it: what was not flushed may be lost */
	uint64_t crashes;	  /* rblkd alone ended without order: nothing is lost by that */
	uint64_t power_on_s;
};

struct health_record {
	/* Thread: never changes */
	char nqn[NVMF_NQN_MAX + 1];

	/* Thread: control */
	struct list node;
	struct health *health;
	uint64_t seen;			 /* the turn of health_follow that saw it exported */
	bool has_begun;			 /* this rblkd has counted its power cycle */
	bool was_on;			 /* according to the file: it was not ended in order */
	char boot_id[HEALTH_BOOT_BYTES]; /* of the boot in which it was last on; "": not known */

	/* Thread: any */
	_Atomic uint64_t n_errors;

	/* Guarded by health->lock; control writes */
	struct health_figures past; /* without what its namespaces count now, and n_errors */
	uint64_t on_since_ns;	    /* 0: not exported */
	struct list namespaces;	    /* of struct namespace (health_node) */

	struct event_log events; /* its threads: event_log.h */
};

struct health {
	/* Thread: never changes */
	struct state_directory *directory; /* borrowed; NULL: nothing is kept */
	char boot_id[HEALTH_BOOT_BYTES];   /* of the running kernel; "": not known */

	pthread_mutex_t lock; /* a leaf, held to add up; see the record */

	/* Thread: control */
	struct list records;
	uint64_t n_follows;
	struct loop *loop;		/* NULL: not begun */
	const struct list *controllers; /* borrowed: not empty while hosts are connected */
	struct loop_timer timer;
	bool is_busy;  /* hosts are connected: saved once a minute */
	bool has_news; /* more than counters has changed */
	uint64_t saved_ns, saved_sum;
	struct event_log *saving; /* those whose image is being saved, too */
	pthread_t saver;	  /* runs while text is there */
	char *text;		  /* owned; the saver reads it */
	_Atomic bool is_saved;
	_Atomic int error; /* of the last time: 0, or -errno */
};

/* ---- control ---- */

/* With what the directory (may be NULL) has kept. NULL with one line in why. */
struct health *health_new(struct state_directory *directory, char *why, size_t n);
/* Namespaces and controllers are gone. Accepts NULL. */
void health_free(struct health *health);
/* The record of that subsystem; made if there is none; NULL without memory. */
struct health_record *health_find(struct health *health, const char *nqn);
/* The namespace counts for the record; and its last word, which accepts one that did not. */
void health_add_namespace(struct health_record *record, struct namespace *ns);
void health_remove_namespace(struct namespace *ns);

/* Portals are about to open: marks what is exported as on, durably. What cannot be kept is said in
 * the log, and tried again; it never stops rblkd. */
void health_begin(struct health *health, struct loop *loop, const struct snapshot *snapshot,
		  const struct list *controllers);
/* Another snapshot is current. */
void health_follow(struct health *health, const struct snapshot *snapshot);
/* Something is worth to be saved at once. */
void health_save_soon(struct health *health);
/* A host has connected. */
void health_note_host(struct health *health);
/* Pollers have stopped: saves for the last time, and that the end was in order. Accepts NULL, and
 * one that has not begun. */
void health_end(struct health *health);

/* ---- any thread ---- */

void health_read(struct health_record *record, struct health_figures *ret_figures);
/* smart.c: all of the page but its warnings. record NULL: nothing has been counted. */
void health_fill_smart(struct health_record *record, struct nvme_smart_log *smart);
/* smart.c: of all its namespaces. */
uint8_t health_critical_warning(struct health_record *record);
/* Another entry of an error log: its number. */
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

/* Takes over what was kept. 0; or -errno with one line in why. */
int health_load(struct health *health, char *why, size_t n);
/* The file as it should be now, to be freed; NULL without memory. */
char *health_format(struct health *health);
