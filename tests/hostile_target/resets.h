/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake target's Cross-Controller Reset, and its watch over writes that are sent again. */
#pragma once

#include "tests/hostile_target/fake.h"

/* The values of opt.ccr. */
enum resets {
	RESETS_NONE,
	RESETS_IMMEDIATE,
	RESETS_PENDING, /* until resets_finish; log page 1Eh tells */
	RESETS_LIE,	/* the same, but the page reports the success of others */
	RESETS_FAIL,	/* the same, but the page reports failure */
};

void resets_identify(uint8_t *data, uint16_t cntlid);
/* Fills status and result. */
unsigned resets_command(const struct slot *slot, uint16_t n_cntlids, uint64_t *result);
void resets_log(uint8_t *data, bool must_remove);
void resets_finish(void);
/* Connect of an admin queue. */
void resets_note_kato(uint32_t kato_ms);
/* A write that gets no answer. */
void resets_lose(uint16_t cntlid, uint64_t slba, uint64_t n);
/* A write: a violation if one that was lost could still land over it. */
void resets_check(uint64_t slba, uint64_t n);
