/* SPDX-License-Identifier: BSD-3-Clause */
/* See backends.h. */
#include <stdio.h>

#include "target/store/backends.h"

const struct backend_ops *const backends[N_BACKENDS] = {
#define BACKEND(name) [BACKEND_INDEX_##name] = &backend_##name,
#include "target/store/backend_list.h"
#undef BACKEND
};

static const char *separator(unsigned place, unsigned n)
{
	if (place == 0)
		return "";
	return place + 1 == n ? " and " : ", ";
}

const char *backends_names(char buf[BACKENDS_NAMES_MAX],
			   bool (*is_wanted)(const struct backend_ops *ops))
{
	const char *names[N_BACKENDS];
	unsigned n = 0;
	size_t used = 0;

	for (unsigned i = 0; i < N_BACKENDS; i++)
		if (!is_wanted || is_wanted(backends[i]))
			names[n++] = backends[i]->name;
	buf[0] = '\0';
	for (unsigned i = 0; i < n && used < BACKENDS_NAMES_MAX; i++)
		used += (size_t)snprintf(buf + used, BACKENDS_NAMES_MAX - used, "%s%s",
					 separator(i, n), names[i]);
	return buf;
}

bool backends_end(void)
{
	bool is_over = true;

	for (unsigned i = 0; i < N_BACKENDS; i++)
		is_over &= !backends[i]->end || backends[i]->end();
	return is_over;
}
