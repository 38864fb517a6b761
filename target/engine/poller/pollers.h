/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of pollers; poller.h has the struct. Control thread. */
#pragma once

struct poller;
struct target;

/* Creates target->n_pollers pollers, calls prepare for each (request_poller.h), and starts their
 * threads. 0 or -errno (logged). */
int pollers_start(struct target *target, void (*prepare)(struct poller *poller));
/* When no queue is left. Ends their threads; accepts what was never started. */
void pollers_halt(struct target *target);
/* Also frees them. */
void pollers_stop(struct target *target);
/* Creates one poller without a thread: the caller prepares it and turns its loop. 0 or -errno; the
 * caller calls deinit in either case. */
int poller_init(struct poller *poller, struct target *target, unsigned index);
void poller_deinit(struct poller *poller);

/* The poller with the fewest connections. */
struct poller *pollers_choose(struct target *target);
