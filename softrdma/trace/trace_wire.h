/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that were on a wire, as the UDP payload that a socket sent or received. */
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Traces a packet that a socket sends or has received: n bytes from the BTH to the ICRC. Any
 * thread, under any lock.
 */
void trace_wire(const union ibv_gid *from, const union ibv_gid *to, uint16_t source_port,
		uint16_t ip_id, const uint8_t *bytes, size_t n);
