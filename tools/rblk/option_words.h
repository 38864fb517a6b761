/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines as words that are passed on. Thread: main. */
#pragma once

#include <stdbool.h>

/* An option that is not passed on. */
struct option_drop {
	const char *name; /* "output" of --output; NULL ends the list */
	char letter;	  /* or 0 */
	bool has_value;
};

/* Copies the pointers of the n words that are left to into, which has room for n; returns how many.
 * Words are options with their values, as args_parse has ordered them. */
unsigned option_words_keep(char **words, unsigned n, const struct option_drop *drop,
			   const char **into);
