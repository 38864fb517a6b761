/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A line in which flows take turns, and each keeps its own order: who asks for much does not stand
 * in front of who asks for little. A flow is whatever the caller says, here a queue. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"

struct fair {
	struct list flows; /* of fair_entry.node: the first of each flow */
};

struct fair_entry {
	struct list node;   /* fair->flows, or behind of the first of its flow */
	struct list behind; /* of a first: those of its flow that came later */
	const void *flow;
	bool is_first;
};

void fair_init(struct fair *fair);
/* Last of its flow; a flow that was not there comes last. */
void fair_add(struct fair *fair, struct fair_entry *entry, const void *flow);
/* The first of the flow whose turn it is; NULL when nobody waits. */
struct fair_entry *fair_first(const struct fair *fair);
/* The next flow's turn. */
void fair_rotate(struct fair *fair);
/* Leaves the line; the next of its flow stands where it stood. */
void fair_remove(struct fair_entry *entry);
bool fair_is_empty(const struct fair *fair);
bool fair_has(const struct fair *fair, const void *flow);
unsigned fair_n_flows(const struct fair *fair);
