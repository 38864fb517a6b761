/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "softrdma/trace/trace_file.h"
#include "softrdma/trace/trace_packet.h"
#include "softrdma/trace/trace_wire.h"

enum {
	BTH = 12,
	ICRC = 4,
};

void trace_wire(const union ibv_gid *from, const union ibv_gid *to, uint16_t source_port,
		uint16_t ip_id, const uint8_t *bytes, size_t n)
{
	const struct trace_flow f = {*from, *to};
	const struct trace_bth bth = {.opcode = bytes[0]};
	struct trace_packet p;

	if (n < BTH + ICRC || n > TRACE_PAYLOAD_MAX)
		return;
	trace_begin();
	trace_packet_begin(&p, &f, &bth);
	p.len = p.bth;
	memcpy(trace_packet_add(&p, (unsigned)n), bytes, n);
	trace_packet_finish(&p, source_port, ip_id);
	trace_end();
}
