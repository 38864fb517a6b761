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

#include "target/export/health/health_impl.h"

struct error;
struct snapshot;
struct state_directory;

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
