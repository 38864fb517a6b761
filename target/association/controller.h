/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry of controllers and their queues (the struct is in engine/record/controller.h).
 * Control thread, except where a section names the poller.
 */
#pragma once

#include "target/engine/record/controller.h"

struct connect_op;
struct connection;
struct queue;
struct target;

/* ---- control ----------------------------------------------------------------------------- */

/* controller.c */
/* NULL: no memory, or no free id. */
struct controller *controller_new(struct connect_op *op);
/* Connect succeeded: the connection belongs to the controller from now on. If its host need not
 * authenticate, it is admitted. */
void controller_add_connection(struct controller *controller, struct connection *c);
/* The host of the connection has authenticated, if it must: the connection counts for it. */
void controller_admit(struct connection *c);
/* Before the connection is freed. The last one frees the controller. */
void controller_remove_connection(struct connection *c);
/* Its connections until they are freed, with that of the admin queue. */
unsigned controller_n_queues(const struct controller *controller);
/* Kills all its connections. why is for the log. */
void controller_kill(struct controller *controller, const char *why);
/* Ends it if its host was silent for longer than KATO, and its timer has not run yet. */
void controller_expire(struct controller *controller);
/* Whether both are of one host, of any subsystem. */
bool controller_has_host_of(const struct controller *a, const struct controller *b);
/* NULL: there is none with that id, or it belongs to another subsystem. */
struct controller *controller_find(struct target *target, const char *subnqn, uint16_t id);

/* ---- poller of the admin queue ------------------------------------------------------------ */

/* When the admin queue connects, when it dies: starts and stops timers and events. */
void controller_attach(struct controller *controller, struct queue *admin_queue);
void controller_detach(struct controller *controller);
