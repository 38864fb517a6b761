/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams between processes of one host, as the packets that they stand for. */
#pragma once

struct sr_datagram;

/* Traces a datagram to a process of this host, before it is delivered. Under sq_lock. */
void trace_datagram(const struct sr_datagram *d);
