/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doubly linked list with embedded nodes, circular with a head, as in the Linux kernel. It
 * allocates nothing: the owner of the struct owns the node. Not thread safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define LIST_INIT(l)                                                                               \
	{                                                                                          \
		&(l), &(l)                                                                         \
	}

/* An empty head, or a node that is in no list. */
static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

/* For a head: it has no nodes. For a node: it is in no list. */
static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}

/* The node must be in no list; the list borrows it until list_remove. */
static inline void list_add_tail(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* As list_add_tail, at the other end. */
static inline void list_add_head(struct list *head, struct list *node)
{
	list_add_tail(head->next, node);
}

/* Leaves the node linked to itself, so a second removal is harmless. */
static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Puts by in the place of node, and leaves node linked to itself. */
static inline void list_replace(struct list *node, struct list *by)
{
	by->next = node->next;
	by->prev = node->prev;
	by->prev->next = by;
	by->next->prev = by;
	list_init(node);
}

/* Takes the first node out of the list; NULL when it is empty. */
static inline struct list *list_take_first(struct list *head)
{
	struct list *node = head->next;

	if (node == head)
		return NULL;
	list_remove(node);
	return node;
}

/* Moves all nodes of from behind the nodes of head. */
static inline void list_splice_tail(struct list *head, struct list *from)
{
	if (list_is_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	list_init(from);
}

#define list_entry(node, type, member) container_of(node, type, member)
#define list_for_each(pos, head)                                                                   \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)
/* The body may remove pos. */
#define list_for_each_safe(pos, head)                                                              \
	for (struct list *pos = (head)->next, *pos##_next = pos->next; pos != (head);              \
	     pos = pos##_next, pos##_next = pos->next)
