/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread's half of a queue: the connection to a host, from the connect request until
 * all is freed. It creates the other half (engine/queue/queue.h), passes it to a poller, and gets
 * it back when the queue is over.
 *
 *     ATTACHING ---> CONNECTING ---> LIVE ---> FINISHING
 *         | attached     | Connect    |            |       disconnect, error, timeout, shutdown
 *         +--------------+------------+------------+--> DYING --(over)--> FREED
 *                                                         |                ^
 *                            a defect of rblkd +--> STRANDING, STRANDED -+
 *
 * While a host leaves for a successor of rblkd: LIVE ---> PARTING ---> PARTED ---> DYING.
 */
#pragma once

#include "base/bits.h"
#include "target/association/connection_impl.h"
#include "transport/capsule.h"
#include "transport/cm.h"

/* All of these: control thread. */

/* Handles a connect request that passed the checks of portal.c: creates the queue and passes it to
 * a poller; accepts when receives are posted. Owns cm from here on, also on failure. events: a
 * constant. */
void connection_open(struct portal *portal, struct cm_conn *cm, const struct cm_queue_request *wish,
		     unsigned max_reads, const struct connection_events *events);
/* Disconnects; the connection frees itself once everything has returned. why is for the log. */
void connection_kill(struct connection *c, const char *why);
/* Ends the connection once its commands in flight have ended. why is a constant. */
void connection_finish(struct connection *c, const char *why);
/* The stores go to another rblkd. An admin queue stays without them, so that a host that resets its
 * controller has its answers; so do, silent, the I/O queues of a host that is about to, which takes
 * a lost one for a reason to wait. Any other ends as by connection_finish. why is a constant. */
void connection_part(struct connection *c, const char *why);
/* Whether all that remain are stranded, or have parted. */
bool connections_are_over(const struct target *target);
/* Refuses a peer that has no connection yet. Owns cm from here on. */
void connection_refuse(struct cm_conn *cm, enum nvmf_cm_status status);
/* Ends it for an invariant that broke, here or on its poller: a defect of rblkd (defect.h). what is
 * for the log. Accepts one that is dying. */
COLD void connection_break(struct connection *c, const char *what);
/* Connect succeeded. */
void connection_set_live(struct connection *c);
/* Its host is now known, and authenticated if it has a key: it no longer counts in
 * target->n_pending, and its address is known (admission.h). Once for a connection. */
void connection_admit(struct connection *c, const char *hostnqn);
/* "live" also while finishing or parting; "dying" also when stranded. */
const char *connection_state_name(const struct connection *c);
