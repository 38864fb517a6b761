/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry of controllers and their queues (the struct is engine/controller.h). Control thread,
 * but for what names the poller.
 */
#pragma once

#include "target/association/connection.h"
#include "target/engine/controller.h"

/* ---- control ----------------------------------------------------------------------------- */

/* controller.c */
/* NULL without memory or free id. */
struct controller *controller_new(struct connect_op *op);
void controller_add_connection(struct controller *controller, struct connection *c);
/* Its line in the log comes then, when nothing more does; unless it is there. */
void controller_announce_soon(struct controller *controller, uint64_t ns);
/* The connection is about to be freed. Frees the controller with the last one. */
void controller_remove_connection(struct connection *c);
/* Kills all its connections. why is for the log. */
void controller_kill(struct controller *controller, const char *why);
struct controller *controller_find(struct target *target, const char *subnqn, uint16_t id);

/* ---- poller of the admin queue ------------------------------------------------------------ */

/* The admin queue is connected, or dies: timers and events start and stop. */
void controller_attach(struct controller *controller, struct queue *admin_queue);
void controller_detach(struct controller *controller);
