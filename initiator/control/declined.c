/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "initiator/control/declined.h"

bool declined_has(const struct declined *declined, const union addr *address)
{
	for (unsigned i = 0; i < declined->n; i++)
		if (addr_is_equal(&declined->addresses[i], address))
			return true;
	return false;
}

static void remove_at(struct declined *declined, unsigned i)
{
	declined->n--;
	memmove(&declined->addresses[i], &declined->addresses[i + 1],
		(declined->n - i) * sizeof(declined->addresses[0]));
}

void declined_remove(struct declined *declined, const union addr *address)
{
	for (unsigned i = declined->n; i-- > 0;)
		if (addr_is_equal(&declined->addresses[i], address))
			remove_at(declined, i);
}

void declined_add(struct declined *declined, const union addr *address)
{
	declined_remove(declined, address);
	if (declined->n == DECLINED_MAX)
		remove_at(declined, 0);
	declined->addresses[declined->n++] = *address;
}
