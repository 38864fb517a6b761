/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "Port unreachable", as an answer to a question that is repeated. Any machine can forge it, but
 * not keep back the peer's own answer. It counts once for each copy of the question, and is
 * believed when several copies have got it and none has got an answer: the last one also has its
 * time. So a peer without RoCE is noticed after 1.4 s, not after 61.
 */
#pragma once

#include <stdbool.h>

enum {
	REFUSALS_ENOUGH = 3
};

struct refusals {
	unsigned n;
	bool has_one; /* for the last copy */
};

static inline void refusals_add(struct refusals *r)
{
	r->n += !r->has_one;
	r->has_one = true;
}

/* Whether the question is refused. It is time to repeat it otherwise: call this before that. */
static inline bool refusals_suffice(struct refusals *r)
{
	r->has_one = false;
	return r->n >= REFUSALS_ENOUGH;
}
