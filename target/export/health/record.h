/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One record of health.h: what a subsystem and its namespaces have counted. The namespaces count
 * for themselves; a record knows them, and adds up what removed ones and earlier rblkds counted.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "target/export/health/event_log.h"
#include "transport/wire/fabrics.h"

struct namespace;

enum {
	HEALTH_BOOT_BYTES = 40, /* a UUID as text, with NUL */
};

struct health_figures {
	uint64_t n_reads, n_writes;	    /* commands */
	uint64_t read_units, written_units; /* of 512 bytes */
	uint64_t n_media_errors, n_errors;  /* n_errors: entries of error logs */
	uint64_t power_cycles;
	uint64_t unsafe_shutdowns; /* the machine went down: unflushed writes may be lost */
	uint64_t crashes;	   /* rblkd alone ended without order: no write is lost */
	uint64_t power_on_s;
};

/*
 * From the point of view of this rblkd, whose start is one power cycle:
 *
 *     NEW ------+--> ON <---> OFF
 *     LEFT_ON --+
 */
enum health_state {
	HEALTH_NEW,	/* not exported yet */
	HEALTH_LEFT_ON, /* the same, and according to the file its last end was not in order */
	HEALTH_ON,	/* exported */
	HEALTH_OFF,	/* not exported any more */
};

struct health_record {
	/* Thread: never changes */
	char nqn[NVMF_NQN_MAX + 1];

	/* Thread: control */
	struct list node;
	struct health *health;
	uint64_t seen; /* the last call of health_follow that found it exported */
	enum health_state state;
	bool has_lost_writes;		 /* so the file has it as on, even after health_end */
	char boot_id[HEALTH_BOOT_BYTES]; /* of the boot in which it was last on; "": unknown */

	/* Thread: any */
	_Atomic uint64_t n_errors;

	/* Protected by health->lock; control writes */
	struct health_figures past; /* without n_errors and what current namespaces count */
	uint64_t on_since_ns;	    /* 0: not HEALTH_ON */
	struct list namespaces;	    /* of struct namespace (health_node) */

	struct event_log events; /* its threads: event_log.h */
};

/* ---- control ---- */

/* The record of that subsystem, which it creates if needed; NULL: no memory. */
struct health_record *health_find(struct health *health, const char *nqn);
/* Counts a namespace for the record; ends that, and accepts one that was not counted. */
void health_add_namespace(struct health_record *record, struct namespace *ns);
void health_remove_namespace(struct namespace *ns);

/* ---- any thread ---- */

/* The sum of the record and its namespaces. */
void health_read(struct health_record *record, struct health_figures *ret_figures);
/* Counts an entry of an error log, and returns its number. */
static inline uint64_t health_count_error(struct health_record *record)
{
	return atomic_fetch_add_explicit(&record->n_errors, 1, memory_order_relaxed) + 1;
}
