/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet sequence numbers: 24 bits, compared within half of their circle (IBA 9.7.1). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ROCE_PSN_MASK 0xffffffu

static inline uint32_t roce_psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & ROCE_PSN_MASK;
}

/* a - b: how far a is ahead of b, negative if it is behind. */
static inline int32_t roce_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* Whether psn is one of the n that begin at first. */
static inline bool roce_psn_within(uint32_t psn, uint32_t first, uint32_t n)
{
	return ((psn - first) & ROCE_PSN_MASK) < n;
}

/* How many packets of mtu bytes carry a message; one without payload is a packet, too. */
static inline uint32_t roce_n_packets(uint64_t length, uint32_t mtu)
{
	return length ? (uint32_t)((length + mtu - 1) / mtu) : 1;
}
