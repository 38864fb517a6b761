/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections as members of their controller, which count for its host. If the host has a key, a
 * connection belongs to the controller from Connect on, but it counts for nothing and does not take
 * its queue id until the host has authenticated on it. Control thread.
 */
#pragma once

#include <stdint.h>

struct connection;
struct controller;
struct target;

/* Why the host may not have another association, or another I/O queue for this one; or NULL. */
const char *member_refuse_association(const struct target *target, const char *hostnqn);
const char *member_refuse(const struct controller *controller);
/* The member with that queue id; NULL: none. */
struct connection *member_find(const struct controller *controller, uint16_t qid);
/* Counts the connection for its host from now on. */
void member_admit(struct connection *c);
/* Before the connection is freed. Accepts one that was not admitted. */
void member_discount(const struct connection *c);
