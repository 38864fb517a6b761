/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unreliable datagrams (UD): how a queue pair sends one, and how one is delivered to a queue pair
 * of this host. An engine only moves them: its send calls sr_datagram_deliver for the processes of
 * this host, as its receiver does for what comes from another one.
 */
#pragma once

#include "softrdma/fabric/datagram.h"
#include "softrdma/fabric/engine.h"
#include "softrdma/fabric/peer.h"

/* Of queue pairs for datagrams: it runs their work requests, whichever engine reaches the peer. */
extern const struct sr_engine sr_datagram_engine;

/*
 * Delivers a datagram to the queue pair in that slot of a process of this host, or drops it, as the
 * rules of datagrams say: another queue pair or none, another Q_Key, no receive. A receive that is
 * too short fails, and its queue pair with it. Takes the queue pair's shared lock; any thread.
 */
void sr_datagram_deliver(struct sr_peer *owner, uint32_t slot, const struct sr_datagram *d);
