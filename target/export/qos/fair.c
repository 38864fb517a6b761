/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fair.h. Finding a flow walks all flows in the line: as many as there are queues of one poller
 * that wait for the same resource at the same time.
 */
#include <stddef.h>

#include "base/check.h"
#include "target/export/qos/fair.h"

void fair_init(struct fair *fair)
{
	list_init(&fair->flows);
}

bool fair_is_empty(const struct fair *fair)
{
	return list_is_empty(&fair->flows);
}

static struct fair_entry *find(const struct fair *fair, const void *flow)
{
	list_for_each (node, &fair->flows) {
		struct fair_entry *first = list_entry(node, struct fair_entry, node);

		if (first->flow == flow)
			return first;
	}
	return NULL;
}

bool fair_has(const struct fair *fair, const void *flow)
{
	return find(fair, flow);
}

/* Searches from the end, because most flows go last. */
static void place(struct fair *fair, struct fair_entry *first)
{
	struct list *before = fair->flows.prev;

	while (before != &fair->flows &&
	       list_entry(before, struct fair_entry, node)->tag > first->tag)
		before = before->prev;
	list_add_head(before, &first->node);
}

void fair_add_tagged(struct fair *fair, struct fair_entry *entry, const void *flow, uint64_t tag)
{
	struct fair_entry *first = find(fair, flow);

	entry->flow = flow;
	entry->tag = tag;
	entry->is_first = !first;
	list_init(&entry->behind);
	if (first)
		list_add_tail(&first->behind, &entry->node);
	else
		place(fair, entry);
}

void fair_add(struct fair *fair, struct fair_entry *entry, const void *flow)
{
	fair_add_tagged(fair, entry, flow, 0);
}

void fair_take_first(struct fair *fair, uint64_t tag)
{
	struct fair_entry *first = fair_first(fair);
	bool has_more;

	check(first && first->is_first);
	has_more = !list_is_empty(&first->behind);
	fair_remove(first);
	if (!has_more)
		return;
	first = fair_first(fair);
	first->tag = tag;
	list_remove(&first->node);
	place(fair, first);
}

void fair_retag(struct fair *fair, uint64_t tag)
{
	list_for_each (node, &fair->flows) {
		list_entry(node, struct fair_entry, node)->tag = tag;
	}
}

struct fair_entry *fair_first(const struct fair *fair)
{
	return fair_is_empty(fair) ? NULL : list_entry(fair->flows.next, struct fair_entry, node);
}

void fair_rotate(struct fair *fair)
{
	struct list *node = list_take_first(&fair->flows);

	if (node)
		list_add_tail(&fair->flows, node);
}

void fair_remove(struct fair_entry *entry)
{
	struct list *node = entry->is_first ? list_take_first(&entry->behind) : NULL;

	if (node) {
		struct fair_entry *next = list_entry(node, struct fair_entry, node);

		next->is_first = true;
		next->tag = entry->tag;
		list_splice_tail(&next->behind, &entry->behind);
		list_add_head(&entry->node, &next->node);
	}
	list_remove(&entry->node);
}

unsigned fair_n_flows(const struct fair *fair)
{
	unsigned n = 0;

	list_for_each (node, &fair->flows) {
		n++;
	}
	return n;
}
