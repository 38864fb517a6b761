/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delivering a datagram to a queue pair of this process or a peer; see datagram.h. The receive
 * begins with the global route header. A short datagram travels inside the completion, and its
 * receiver scatters it when it polls.
 */
#pragma once

#include <stdint.h>

struct sr_datagram;
struct sr_peer;

/*
 * Delivers a datagram to the queue pair in that slot of a process of this host, or drops it, as the
 * rules of datagrams say: another queue pair or none, another Q_Key, no receive. A receive that is
 * too short fails, and its queue pair with it. Takes the queue pair's shared lock; any thread.
 */
void sr_datagram_deliver(struct sr_peer *owner, uint32_t slot, const struct sr_datagram *d);
