/* SPDX-License-Identifier: BSD-3-Clause */
/* See field.h. Texts are counted in bytes: they are ASCII but for names. */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "tools/shared/field.h"
#include "tools/shared/terminal.h"

enum {
	LABEL_COLUMN = 2,
	TEXT_COLUMN = 18,
	BELOW_COLUMN = 4,
};

/* It decides whether the text can stand beside its label. */
static size_t longest_word(const char *text)
{
	size_t longest = 0, n;

	for (; *text; text += n + strspn(text + n, " ")) {
		n = strcspn(text, " ");
		longest = MAX(longest, n);
	}
	return longest;
}

/* Bytes of the next line: as many words as there is room for, one at least. */
static size_t line_length(const char *text, size_t room)
{
	size_t n = strlen(text);

	if (n <= room)
		return n;
	for (n = room; n && text[n] != ' '; n--)
		;
	return n ? n : strcspn(text, " ");
}

/* The first line begins where the cursor is. */
static void print_lines(const char *text, unsigned column, size_t room)
{
	size_t n;

	for (;; printf("%*s", (int)column, "")) {
		n = line_length(text, room);
		printf("%.*s\n", (int)n, text);
		text += n + strspn(text + n, " ");
		if (!*text)
			return;
	}
}

/* A pipe has no width: there each text is one line. */
void field_print(const char *label, const char *text)
{
	unsigned columns = terminal_columns();
	size_t room = columns > TEXT_COLUMN ? columns - TEXT_COLUMN : 0;

	if (!room || strlen(text) <= room) {
		printf("%*s%-*s%s\n", LABEL_COLUMN, "", TEXT_COLUMN - LABEL_COLUMN, label, text);
	} else if (longest_word(text) <= room) {
		printf("%*s%-*s", LABEL_COLUMN, "", TEXT_COLUMN - LABEL_COLUMN, label);
		print_lines(text, TEXT_COLUMN, room);
	} else {
		printf("%*s%s\n%*s", LABEL_COLUMN, "", label, BELOW_COLUMN, "");
		print_lines(text, BELOW_COLUMN, columns - BELOW_COLUMN);
	}
}
