/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send queue of a queue pair for datagrams: each work request names its own destination, and
 * completes when the datagram is on its way. An engine of its own runs it, which passes each
 * datagram to the engine of its address.
 */
#pragma once

struct sr_engine;

/* The engine of queue pairs for datagrams: it runs their work requests, whichever engine reaches
 * the peer. */
extern const struct sr_engine sr_datagram_engine;
