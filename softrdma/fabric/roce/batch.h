/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: packets are collected in a buffer and leave with one sendmmsg(2). A run of packets of
 * one size to one destination is one datagram for the kernel, which cuts it (UDP_SEGMENT): the i-th
 * piece leaves with IPv4 ID i, and the ICRC has to know that. A burst goes whole to the process
 * that its first packet is for, so only packets for one process share it (BTH byte 6).
 */
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct roce_batch;
struct roce_port;
struct roce_way;

/* From port 4791, as management does and datagrams do. */
struct roce_way roce_way_from_port(struct roce_port *port, const union ibv_gid *to);

/* Takes one of a few batches; waits for one. A leaf lock, held until roce_batch_end. */
struct roce_batch *roce_batch_begin(void);
/*
 * Where the next packet goes, at most ROCE_PACKET_MAX bytes. Sends what has been collected if
 * there is no room.
 */
uint8_t *roce_batch_room(struct roce_batch *b);
/*
 * A packet of n bytes (BTH to pad) stands where roce_batch_room said. Computes the ICRC. Packets of
 * one size that go one way in a row leave as one burst.
 */
void roce_batch_add(struct roce_batch *b, const struct roce_way *way, size_t n);
/*
 * Sends the packets that chaos keeps back and that are due. Returns when to call it again, 0 for
 * never.
 */
uint64_t roce_held_tick(uint64_t now);
/* Sends everything and gives the batch back. A datagram that cannot be sent is a lost one. */
void roce_batch_end(struct roce_batch *b);
