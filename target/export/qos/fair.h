/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A line in which flows take turns. Each flow keeps its own order, so a flow that asks for much
 * does not hold up one that asks for little. The caller defines flows; here they are queues. Flows
 * are ordered by their tags; flows with equal tags, by arrival. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct fair {
	struct list flows; /* of fair_entry.node: the first entry of each flow */
};

struct fair_entry {
	struct list node;   /* in fair->flows, or in `behind` of its flow's first entry */
	struct list behind; /* of a first entry: the later ones of its flow */
	const void *flow;
	uint64_t tag; /* of a first entry: its flow's */
	bool is_first;
};

/* An empty line; it owns nothing. */
void fair_init(struct fair *fair);
/* Adds an entry as the last of its flow; a new flow goes last. */
void fair_add(struct fair *fair, struct fair_entry *entry, const void *flow);
/* The first entry of the flow that has its turn; NULL: the line is empty. */
struct fair_entry *fair_first(const struct fair *fair);
/* The same; a new flow gets this tag. */
void fair_add_tagged(struct fair *fair, struct fair_entry *entry, const void *flow, uint64_t tag);
/* Removes the first entry; its flow, if it has more entries, goes on with this tag. */
void fair_take_first(struct fair *fair, uint64_t tag);
/* Sets this tag for all flows; they keep their order. */
void fair_retag(struct fair *fair, uint64_t tag);
/* Passes the turn to the next flow; for lines without tags. */
void fair_rotate(struct fair *fair);
/* Removes an entry; the next one of its flow takes its place. */
void fair_remove(struct fair_entry *entry);
/* Whether there is no flow; whether this flow is in the line; the number of flows. */
bool fair_is_empty(const struct fair *fair);
bool fair_has(const struct fair *fair, const void *flow);
unsigned fair_n_flows(const struct fair *fair);
