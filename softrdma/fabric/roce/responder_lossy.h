/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of an unreliable connection; see responder.h. Nothing is answered, so nothing comes
 * again: a packet that is missing takes its whole message along, and the next first or only packet
 * begins a new one, whatever its number (IBA volume 1, 9.8.2.2 and 9.8.3).
 */
#pragma once

#include "softrdma/fabric/roce/host.h"

struct roce_host;
struct roce_packet;
struct roce_responder;

/*
 * The same for UC: a packet with ROCE_IS_UC. A message of which a packet is missing, or which the
 * host refuses, is dropped in silence; its receive is for the next one. Only ROCE_BROKEN ends the
 * responder.
 */
void roce_responder_receive_lossy(struct roce_responder *r, const struct roce_packet *p,
				  const struct roce_host *host, void *context);
