/* SPDX-License-Identifier: BSD-3-Clause */
/* See spin.h. */
#include "base/spin.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"

static const struct {
	const char *word;
	uint64_t spin;
} words[] = {{"auto", SPIN_AUTO}, {"always", SPIN_ALWAYS}, {"never", 0}};

int spin_parse(const char *text, uint64_t *ret_spin)
{
	uint64_t ns;

	for (unsigned i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(text, words[i].word))
			continue;
		*ret_spin = words[i].spin;
		return 0;
	}
	if (units_parse_duration(text, &ns) < 0 || ns > NSEC_PER_SEC)
		return -EINVAL;
	*ret_spin = ns;
	return 0;
}

const char *spin_format(char buf[UNITS_MAX], uint64_t spin)
{
	for (unsigned i = 0; i < ARRAY_LEN(words); i++)
		if (spin == words[i].spin)
			return words[i].word;
	return units_format_duration(buf, spin);
}
