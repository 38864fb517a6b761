/* SPDX-License-Identifier: BSD-3-Clause */
/* The answers that a responder owes and remembers; see responder.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/fabric/roce/responder.h"

/* Whether an answer is owed; if so *ret is it, as if it was sent. */
bool roce_responder_next(struct roce_responder *r, struct roce_answer *ret);
/* The READ of the last answer cannot be read: ends as if the request had been refused. */
void roce_responder_refuse(struct roce_responder *r, const struct roce_answer *a,
			   enum roce_verdict why);

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

/* Ends the responder with a NAK for psn. */
void roce_responder_break(struct roce_responder *r, uint32_t psn, enum roce_verdict why);
