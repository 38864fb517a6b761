/* SPDX-License-Identifier: BSD-3-Clause */
/* What responder.c (requests) and responder_answers.c (what is owed for them) share. */
#pragma once

#include "softrdma/fabric/roce/responder.h"

/* The one acknowledgement or NAK that follows all that is owed. */
void roce_responder_answer(struct roce_responder *r, uint32_t psn, uint8_t syndrome);
/* Queues the answer to a READ or atomic. False: no room. */
bool roce_responder_owe(struct roce_responder *r, const struct roce_saved *s);
bool roce_responder_has_room(const struct roce_responder *r);
/* Whether the answer to packet psn of a READ or atomic is still to be sent. */
bool roce_responder_owes(const struct roce_responder *r, uint32_t psn);
/* The requester has gone back: what is owed from psn on, it asks for again. */
void roce_responder_forgo(struct roce_responder *r, uint32_t psn);

/* Remembers an executed READ or atomic for duplicates; the oldest is forgotten. */
void roce_responder_save(struct roce_responder *r, const struct roce_saved *s);
/* The remembered one to which psn belongs, or NULL. */
const struct roce_saved *roce_responder_find(const struct roce_responder *r, uint32_t psn);
/* The PSN that acknowledges a duplicate of psn: the last executed one, but none beyond a READ or
 * atomic, whose response may have been lost. */
uint32_t roce_responder_ack_for(const struct roce_responder *r, uint32_t psn);

/* Whether an opcode may come now: IBA 9.7.4.1.2, 9.8.3.1. */
bool roce_responder_is_in_order(const struct roce_responder *r, uint8_t opcode);
/* Carries out a packet of a SEND or WRITE that is in order. */
enum roce_verdict roce_responder_message(struct roce_responder *r, const struct roce_packet *p,
					 const struct roce_host *host, void *context);
/* Ends the responder with a NAK for psn. */
void roce_responder_break(struct roce_responder *r, uint32_t psn, enum roce_verdict why);
