/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication of hosts on their queues (DH-HMAC-CHAP): the commands, over session.h. If a host
 * has a key in the configuration, each of its queues, admin or I/O, serves only these commands
 * until the host has authenticated on it.
 */
#pragma once

struct connection;

/* Control, after a successful Connect: creates a session for a host with a key. 0 or -ENOMEM. */
int auth_attach(struct connection *c, const char *hostnqn, const char *subnqn);
/* Control: the time for the first proof is over. */
void auth_on_timeout(struct connection *c);
/* Control, before the queue is freed. Accepts a connection without a session. */
void auth_release(struct connection *c);
