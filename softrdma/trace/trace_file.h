/* SPDX-License-Identifier: BSD-3-Clause */
/* The trace file: pcapng, one section, one Ethernet interface, nanoseconds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	TRACE_PAYLOAD_MAX = 12 + 28 + 4096 + 4, /* of UDP: BTH, extended headers, payload, ICRC */
};

struct trace_packet {
	unsigned len, ip, bth; /* bytes so far; where those headers begin */
	uint8_t data[14 + 40 + 8 + TRACE_PAYLOAD_MAX];
};

extern _Atomic bool trace_is_on;

/* In between, the calling thread owns the file; end writes the collected packets. */
void trace_begin(void);
void trace_end(void);
/* Queues one finished packet. */
void trace_put(const struct trace_packet *p);
