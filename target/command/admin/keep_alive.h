/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keep-alive: an association ends when no command of its host arrives within KATO. Poller of the
 * admin queue. Commands on all queues count (traffic based keep-alive, TBKAS): parse.c records
 * their time.
 */
#pragma once

struct controller;

/* The controller is ready: from now on its host has KATO, or the age limit, to be heard of. */
void keep_alive_start(struct controller *controller);
/* It is not ready any more. Accepts one that was not started. */
void keep_alive_stop(struct controller *controller);
