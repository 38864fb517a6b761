/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariant CRC of RoCE v2 packets (IBA annex A17): the CRC-32 of Ethernet over the IP header
 * on, with the fields that routers change set to ones. Pure; any thread, after roce_icrc_init().
 *
 * The IPv4 header's ID is part of it, and a UDP socket does not show the ID. But the CRC is linear:
 * at most one ID makes a packet right, and roce_icrc_solve() finds it.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The ends of a packet. IPv4 if both addresses are mapped ones, IPv6 otherwise. */
struct roce_ends {
	union ibv_gid from, to;
	uint16_t source_port; /* host order; the destination is ROCE_PORT */
};

/* Whether a GID is an IPv4-mapped address. */
bool roce_gid_is_ip4(const union ibv_gid *gid);

/* Chooses the fastest way that the processor has. Any thread, as often as one likes. */
void roce_icrc_init(void);

/*
 * Over n bytes from the BTH to the pad. ip_id: of the IPv4 header, 0 for IPv6. df: whether that
 * header forbids fragments, as it nearly always does. The result is stored little endian.
 */
uint32_t roce_icrc(const struct roce_ends *e, const uint8_t *bytes, size_t n, uint16_t ip_id,
		   bool df);
/*
 * Whether `stored` is right for these bytes and some ID of the IPv4 header (IPv6 has none, and is
 * exact). One random damage of 65536 passes for IPv4, so the caller judges the ID too.
 */
bool roce_icrc_solve(const struct roce_ends *e, const uint8_t *bytes, size_t n, uint32_t stored,
		     bool df, uint16_t *ret_ip_id);

/* CRC-32 of a run of bytes: the state before and after, not complemented. The second one uses
 * tables even where the processor has a faster way; for tests. */
uint32_t roce_crc(uint32_t state, const uint8_t *data, size_t n);
uint32_t roce_crc_by_table(uint32_t state, const uint8_t *data, size_t n);
