/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aligned tables on stdout: the cells are collected, measured and then printed, two blanks between
 * columns and none at the end of a line. Widths are in characters, not bytes.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "tools/rblkctl/rblkctl.h"

enum {
	CELL_MAX = 512,
};

static void put_cell(struct table *table, const char *text)
{
	if (table->at % table->n_columns == 0) {
		size_t n = ((size_t)table->n_rows + 1) * table->n_columns;
		char **cells = realloc(table->cells, n * sizeof(*cells));

		check(cells != NULL);
		table->cells = cells;
		table->n_rows++;
	}
	table->cells[table->at] = strdup(text);
	check(table->cells[table->at] != NULL);
	table->at++;
}

void table_begin(struct table *table, const char *const *titles)
{
	*table = (struct table){0};
	while (titles[table->n_columns])
		table->n_columns++;
	check(table->n_columns <= COLUMNS_MAX);
	for (unsigned i = 0; i < table->n_columns; i++)
		put_cell(table, titles[i]);
}

void table_add(struct table *table, const char *text)
{
	put_cell(table, text);
}

void table_addf(struct table *table, const char *fmt, ...)
{
	char text[CELL_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_cell(table, text);
}

void table_add_size(struct table *table, const struct options *options, uint64_t bytes)
{
	char text[UNITS_MAX];

	table_add(table, format_size(options, text, bytes));
}

const char *format_size(const struct options *options, char buf[UNITS_MAX],
			uint64_t bytes)
{
	if (!options->wants_bytes)
		return units_format_size(buf, bytes);
	snprintf(buf, UNITS_MAX, "%" PRIu64, bytes);
	return buf;
}

/* Characters of UTF-8. */
static unsigned width(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static bool is_right(const struct table *table, unsigned column)
{
	return table->cells[column][0] == '>';
}

static const char *cell(const struct table *table, unsigned row, unsigned column)
{
	const char *text = table->cells[row * table->n_columns + column];

	return row == 0 && is_right(table, column) ? text + 1 : text;
}

static void print_row(const struct table *table, unsigned row, const unsigned *widths)
{
	unsigned n_columns = table->n_columns;

	while (n_columns && !*cell(table, row, n_columns - 1))
		n_columns--; /* no blanks at the end */
	for (unsigned i = 0; i < n_columns; i++) {
		const char *text = cell(table, row, i);
		int n_fill = (int)(widths[i] - width(text));
		bool is_last = i + 1 == n_columns;

		if (is_right(table, i))
			printf("%*s%s", n_fill, "", text);
		else
			printf("%s%*s", text, is_last ? 0 : n_fill, "");
		fputs(is_last ? "\n" : "  ", stdout);
	}
}

void table_end(struct table *table)
{
	unsigned widths[COLUMNS_MAX] = {0};

	for (unsigned row = 0; row < table->n_rows; row++)
		for (unsigned i = 0; i < table->n_columns; i++)
			widths[i] = MAX(widths[i], width(cell(table, row, i)));
	for (unsigned row = 0; row < table->n_rows; row++)
		print_row(table, row, widths);
	for (unsigned i = 0; i < table->at; i++)
		free(table->cells[i]);
	free(table->cells);
	*table = (struct table){0};
}
