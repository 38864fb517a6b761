/* SPDX-License-Identifier: BSD-3-Clause */
/* What a controller answers about another one of its host that was reset (TP 8028). Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum proof_word {
	PROOF_OVER,	   /* no command of it is at work any more */
	PROOF_UNDER_WAY,   /* it is being reset: log page 1Eh tells when it is over */
	PROOF_LATER,	   /* to be asked again */
	PROOF_REFUSED,	   /* its reset failed, or this controller knows nothing about it */
	PROOF_UNSUPPORTED, /* there is no such command */
};

/* Log page 1Eh, n bytes of which nothing is trusted: of the controller icid with the CIU ciu.
 * PROOF_LATER: it is not listed. */
enum proof_word proof_log_find(const void *data, size_t n, uint16_t icid, uint8_t ciu);
