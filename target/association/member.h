/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues that count as members of their controller, and so of its host. Of a host with a key a queue
 * belongs to the controller from Connect on, but counts for nothing, and keeps its number from no
 * other, until the host has proven that it is its own. Control thread.
 */
#pragma once

#include <stdint.h>

enum {
	ANNOUNCE_MS = 1000, /* from Connect or proof of the admin queue to the line in the log */
};

struct controller;
struct queue;
struct target;

/* Why the host may not have one more association; one more I/O queue of this one. NULL: it may. */
const char *member_refuse_association(const struct target *target, const char *hostnqn);
const char *member_refuse(const struct controller *controller);
/* The member of that number; NULL: there is none. */
struct queue *member_find(const struct controller *controller, uint16_t qid);
/* From here on it counts for its host, in the host's name. */
void member_admit(struct queue *queue);
/* The host has authenticated this queue: it is admitted, or killed for being one too many. */
void member_on_proven(struct queue *queue);
/* It is about to be freed. Accepts one that was not admitted. */
void member_discount(const struct queue *queue);
