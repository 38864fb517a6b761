/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "softrdma/fabric/datagram.h"
#include "softrdma/trace/trace_datagram.h"
#include "softrdma/trace/trace_file.h"
#include "softrdma/trace/trace_packet.h"

enum {
	UD_SEND_ONLY = 0x64,
	UD_SEND_ONLY_IMM = 0x65,
};

void trace_datagram(const struct sr_datagram *d)
{
	const struct trace_flow f = {d->address->local, d->address->remote};
	const struct trace_bth bth = {.opcode = d->has_imm ? UD_SEND_ONLY_IMM : UD_SEND_ONLY,
				      .solicited = d->is_solicited,
				      .dest_qpn = d->qpn,
				      .psn = d->psn};
	struct trace_packet p;

	trace_begin();
	trace_packet_begin(&p, &f, &bth);
	trace_packet_add32(&p, d->qkey);
	trace_packet_add32(&p, d->source_qpn);
	if (d->has_imm)
		memcpy(trace_packet_add(&p, 4), &d->imm, 4);
	for (unsigned i = 0; i < d->n_data; i++)
		memcpy(trace_packet_add(&p, (unsigned)d->data[i].iov_len), d->data[i].iov_base,
		       d->data[i].iov_len);
	trace_packet_end(&p);
	trace_end();
}
