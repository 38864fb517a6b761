/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that count as members of their controller, and so of its host. Of a host with a key a
 * connection belongs to the controller from Connect on, but it counts for nothing and does not take
 * its queue id until the host has proven its name. Control thread.
 */
#pragma once

#include <stdint.h>

enum {
	ANNOUNCE_MS = 1000, /* from Connect or proof of the admin queue to the line in the log */
};

struct connection;
struct controller;
struct target;

/* Why the host may not have one more association; one more I/O queue of this one. NULL: it may. */
const char *member_refuse_association(const struct target *target, const char *hostnqn);
const char *member_refuse(const struct controller *controller);
/* The member of that number; NULL: there is none. */
struct connection *member_find(const struct controller *controller, uint16_t qid);
/* From here on it counts for its host, in the host's name. */
void member_admit(struct connection *c);
/* The host has authenticated the connection: it is admitted, or killed for being one too many. */
void member_on_proven(struct connection *c);
/* It is about to be freed. Accepts one that was not admitted. */
void member_discount(const struct connection *c);
