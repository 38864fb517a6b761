/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A line in which flows take turns, and each keeps its own order: a flow that asks for much does
 * not stand in front of one that asks for little. A flow is whatever the caller says, here a queue.
 * Flows stand in the order of their tags, and where these are equal in the order in which they
 * came. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct fair {
	struct list flows; /* of fair_entry.node: the first of each flow */
};

struct fair_entry {
	struct list node;   /* fair->flows, or behind of the first of its flow */
	struct list behind; /* of a first: those of its flow that came later */
	const void *flow;
	uint64_t tag; /* of a first: its flow's */
	bool is_first;
};

void fair_init(struct fair *fair);
/* Last of its flow; a flow that was not there comes last. */
void fair_add(struct fair *fair, struct fair_entry *entry, const void *flow);
/* The first of the flow whose turn it is; NULL: none waits. */
struct fair_entry *fair_first(const struct fair *fair);
/* The same; a flow that was not there gets this tag. */
void fair_add_tagged(struct fair *fair, struct fair_entry *entry, const void *flow, uint64_t tag);
/* The first leaves the line; its flow, if it has others there, goes on with this tag. */
void fair_take_first(struct fair *fair, uint64_t tag);
/* All flows get this tag, and keep their order. */
void fair_retag(struct fair *fair, uint64_t tag);
/* The next flow's turn; for lines without tags. */
void fair_rotate(struct fair *fair);
/* Leaves the line; the next of its flow stands where it stood. */
void fair_remove(struct fair_entry *entry);
bool fair_is_empty(const struct fair *fair);
bool fair_has(const struct fair *fair, const void *flow);
unsigned fair_n_flows(const struct fair *fair);
