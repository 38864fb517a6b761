/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One record of health.h: what a subsystem and its namespaces have counted. The namespaces count
 * for themselves; a record knows them, and adds up what removed ones and earlier rblkds counted.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "target/export/health/health_impl.h"

struct namespace;

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
