/* SPDX-License-Identifier: BSD-3-Clause */
/* How a requester takes acknowledgements, READ responses, NAKs and silence; see requester.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softrdma/fabric/roce/request.h"
#include "softrdma/fabric/roce/requester.h"

/* A packet with ROCE_IS_RESPONSE. rnr_ns: how long its RNR timer, if it has one, is. */
enum roce_effect roce_requester_receive(struct roce_requester *r, const struct roce_packet *p,
					uint64_t rnr_ns, uint64_t now, struct roce_placement *ret);
/* Whether it answers a packet that is under way: the rest is late, or forged. */
bool roce_requester_awaits(const struct roce_requester *r, uint32_t psn);
/* The data of the last ROCE_PLACE is in place. */
void roce_requester_placed(struct roce_requester *r, uint64_t now);
/* The request fails by the caller's own judgement, once all before it are done. */
void roce_requester_fail(struct roce_requester *r, uint64_t index);

/*
 * Whether the oldest request is over; if so it is taken out, and *ret tells how it ended. After a
 * failure no other is ever taken out: the queue pair goes to ERR.
 */
bool roce_requester_pop(struct roce_requester *r, enum roce_failure *ret);

/* When the requester wants roce_requester_tick(); 0: never. */
uint64_t roce_requester_deadline(const struct roce_requester *r);
void roce_requester_tick(struct roce_requester *r, uint64_t now);
