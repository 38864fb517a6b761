/* SPDX-License-Identifier: BSD-3-Clause */
/* Aligned tables on stdout, for rblk and rblkctl. Thread: main. */
#pragma once

enum {
	COLUMNS_MAX = 16,
};

/* Columns as wide as they need to be, or as the terminal allows. Marks in front of a title: '>' a
 * number, aligned to the right; '~' a name that may lose its beginning, '^' words that may lose
 * their end; '?' a column that is left out first, from the right. */
struct table {
	unsigned n_columns, n_rows;
	char **cells; /* owned: strings too; the first row holds the titles */
	unsigned at;  /* the next cell */
};

/* titles: NULL-terminated, at most COLUMNS_MAX; borrowed until table_end. */
void table_begin(struct table *table, const char *const *titles);
/* Row by row, from the left; the text is copied. */
void table_add(struct table *table, const char *text);
__attribute__((format(printf, 2, 3))) void table_addf(struct table *table, const char *fmt, ...);
/* Prints and frees. */
void table_end(struct table *table);
