/* SPDX-License-Identifier: BSD-3-Clause */
/* A controller's answers about another one of its host that was reset (TP 8028). Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"

/* A controller whose end is to be proven. */
struct proof_subject {
	uint16_t cntlid;
	uint8_t ciu; /* and cirn: its instance; 0: Cross-Controller Reset does not know it */
	uint64_t cirn;
	uint64_t hold_ns;   /* so long after its loss it is over in any case; 0: never */
	union addr address; /* of its portal; family 0: not known */
};

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
