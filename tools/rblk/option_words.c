/* SPDX-License-Identifier: BSD-3-Clause */
/* See option_words.h. args_parse has accepted the words, so each option that needs a value has it.
 * */
#include <stddef.h>
#include <string.h>

#include "tools/rblk/option_words.h"

/* "--output" or "--output=json", "-o" or "-ojson". */
static const struct option_drop *find(const struct option_drop *drop, const char *word,
				      bool *ret_has_value)
{
	for (; drop->name; drop++) {
		size_t n = strlen(drop->name);
		bool is_long = !strncmp(word, "--", 2) && !strncmp(word + 2, drop->name, n);

		if (is_long && (!word[2 + n] || word[2 + n] == '=')) {
			*ret_has_value = word[2 + n] == '=';
			return drop;
		}
		if (word[0] == '-' && drop->letter && word[1] == drop->letter) {
			*ret_has_value = word[2] != '\0';
			return drop;
		}
	}
	return NULL;
}

/* A word that is dropped takes its value with it, if that is a word of its own. */
unsigned option_words_keep(char **words, unsigned n, const struct option_drop *drop,
			   const char **into)
{
	unsigned n_kept = 0;

	for (unsigned i = 0; i < n; i++) {
		bool has_value = false;
		const struct option_drop *found = find(drop, words[i], &has_value);

		if (!strcmp(words[i], "--"))
			continue;
		if (!found)
			into[n_kept++] = words[i];
		else if (found->has_value && !has_value)
			i++;
	}
	return n_kept;
}
