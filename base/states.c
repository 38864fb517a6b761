/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a forbidden move; see states.h. Any thread. */
#include "base/states.h"

void states_bad_move(const char *machine, const struct state_rule *from,
		     const struct state_rule *to)
{
	log_err("%s: may not go from state %s to %s", machine, from->name, to->name);
	abort();
}
