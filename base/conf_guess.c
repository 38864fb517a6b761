/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/bits.h"
#include "base/conf_guess.h"

enum {
	MAX_NAME = 64, /* the longest name that is compared */
};

static char fold(char c)
{
	return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
}

/*
 * Edit distance with transpositions of neighbours (optimal string alignment). A change of case, or
 * between _ and -, is free. Both names have at most MAX_NAME characters.
 */
static unsigned distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
	unsigned rows[3][MAX_NAME + 1];
	unsigned *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= n_b; j++)
		last[j] = before[j] = (unsigned)j;
	for (size_t i = 1; i <= n_a; i++) {
		unsigned *oldest = before;

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= n_b; j++) {
			char x = fold(a[i - 1]), y = fold(b[j - 1]);

			row[j] = MIN(last[j - 1] + (x != y), MIN(last[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && x == fold(b[j - 2]) && fold(a[i - 2]) == y)
				row[j] = MIN(row[j], before[j - 2] + 1);
		}
		before = last;
		last = row;
		row = oldest;
	}
	return last[n_b];
}

const char *conf_did_you_mean(const char *s, const char *const *names)
{
	size_t n_s = strlen(s);
	/* A third of the letters may differ; with more, the suggestion would be a guess. */
	unsigned limit = n_s < 3 ? 0 : n_s < 6 ? 1 : n_s < 10 ? 2 : 3;
	const char *best = NULL;

	if (n_s > MAX_NAME)
		return NULL;
	for (; *names; names++) {
		size_t n = strlen(*names);
		unsigned d;

		if (n > MAX_NAME || n > n_s + limit || n_s > n + limit)
			continue;
		d = distance(s, n_s, *names, n);
		if (best ? d < limit : d <= limit) {
			best = *names;
			limit = d;
		}
	}
	return best;
}
