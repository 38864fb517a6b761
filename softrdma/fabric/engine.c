/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine of new queue pairs and connections: the one that a part lists. See engine.h. */
#include "softrdma/fabric/engine.h"

#include "softrdma/process/part.h"

static const struct sr_engine *chosen;

const struct sr_engine *sr_engine(void)
{
	return chosen;
}

static void choose(void)
{
	SR_FOR_EACH_PART(part)
	if (part->engine)
		chosen = part->engine;
}

static const struct sr_part part = {.start = choose};
SR_PART(part);
