/* SPDX-License-Identifier: BSD-3-Clause */
/* One controller asked about another of the same host and subsystem (proof_ask.c). Control loop. */
#pragma once

#include "base/addr.h"
#include "initiator/control/proof_log.h"

struct controller;

/* The answer to a question, on the control loop. */
typedef void proof_done(struct controller *c, enum proof_word word);

/* c is live. done follows, not from inside; not if c is lost before. One question at a time. */
void proof_ask_reset(struct controller *c, const struct proof_subject *subject, proof_done *done);
/* Log page 1Eh; removes what is complete. */
void proof_ask_log(struct controller *c, const struct proof_subject *subject, proof_done *done);
/* Fills in what has to be proven of c when it is lost. */
void proof_subject_of(const struct controller *c, struct proof_subject *ret_subject);
