/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication of hosts on their queues (DH-HMAC-CHAP): the commands, over session.h. A queue
 * of a host with a key in the configuration serves nothing but these until the host has proven
 * itself, on admin and I/O queues alike.
 */
#pragma once

struct connection;

/* Control thread, Connect was granted: whether the host must prove itself, and if so the session
 * for it. 0 or -ENOMEM. */
int auth_attach(struct connection *c, const char *hostnqn, const char *subnqn);
/* Control thread: the time for the first proof is over. */
void auth_on_timeout(struct connection *c);
/* Control thread, the queue is freed. Accepts one without a session. */
void auth_release(struct connection *c);
