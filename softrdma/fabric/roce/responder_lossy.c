/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/fabric/roce/host.h"
#include "softrdma/fabric/roce/psn.h"
#include "softrdma/fabric/roce/responder.h"
#include "softrdma/fabric/roce/responder_lossy.h"

/* Drops the part of the message that has arrived; its receive stays for the next one. */
static void drop(struct roce_responder *r)
{
	r->inbound = ROCE_BETWEEN;
	r->done = 0;
	r->n_dropped++;
}

void roce_responder_receive_lossy(struct roce_responder *r, const struct roce_packet *p,
				  const struct roce_host *host, void *context)
{
	bool is_gap = p->psn != r->expected;
	bool begins = roce_traits(p->opcode) & ROCE_BEGINS;
	enum roce_verdict v;

	if (r->broken)
		return;
	r->n_gaps += is_gap;
	r->expected = roce_psn_add(p->psn, 1);
	if ((is_gap || begins) && r->inbound != ROCE_BETWEEN)
		drop(r);
	if (!roce_responder_is_in_order(r, p->opcode)) {
		if (r->inbound != ROCE_BETWEEN)
			drop(r);
		return; /* the rest of a message that was dropped */
	}
	v = roce_responder_message(r, p, host, context);
	if (v == ROCE_BROKEN)
		r->broken = ROCE_NAK_OPERATION;
	else if (v)
		drop(r);
}
