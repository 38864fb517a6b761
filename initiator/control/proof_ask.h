/* SPDX-License-Identifier: BSD-3-Clause */
/* One controller asked about another of the same host and subsystem (proof_ask.c). Control loop. */
#pragma once

#include "base/addr.h"
#include "initiator/control/proof_log.h"

struct controller;

/* A controller whose end is to be proven. */
struct proof_subject {
	uint16_t cntlid;
	uint8_t ciu; /* and cirn: its instance; 0: Cross-Controller Reset does not know it */
	uint64_t cirn;
	uint64_t hold_ns;   /* so long after its loss it is over in any case; 0: never */
	union addr address; /* of its portal; family 0: not known */
};

typedef void proof_done(struct controller *c, enum proof_word word);

/* In a controller. */
struct proof_question {
	struct proof_subject subject;
	proof_done *done;
};

/* c is live. done follows, not from inside; not if c is lost before. One question at a time. */
void proof_ask_reset(struct controller *c, const struct proof_subject *subject, proof_done *done);
/* Log page 1Eh; removes what is complete. */
void proof_ask_log(struct controller *c, const struct proof_subject *subject, proof_done *done);
/* What has to be proven of c when it is lost. */
void proof_subject_of(const struct controller *c, struct proof_subject *ret_subject);
