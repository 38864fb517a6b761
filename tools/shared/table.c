/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aligned tables on stdout: the cells are collected, measured and then printed, two blanks between
 * columns and none at the end of a line. Widths are in characters, not bytes.
 *
 * On a terminal a table fits its width: long names lose their beginning, then the least important
 * columns are left out, from the right.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "tools/shared/table.h"
#include "tools/shared/terminal.h"

enum {
	CELL_MAX = 512,
	GAP = 2,
	CUT_FIRST = 24, /* names keep this many characters while columns can be left out */
	CUT_LAST = 12,
	MARK_RIGHT = '>',
	MARK_CUT = '~',
	MARK_CUT_END = '^',
	MARK_OPTIONAL = '?',
};

#define MARKS ">~^?"
#define CUT   "\xe2\x80\xa6" /* an ellipsis */

/* Rows grow one at a time: tables are short, and the cells dominate. */
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

/* Characters of UTF-8. */
static unsigned width(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

/* ---- titles, and marks in front of them ---- */

static bool has_mark(const struct table *table, unsigned column, char mark)
{
	const char *title = table->cells[column];

	for (; *title && strchr(MARKS, *title); title++)
		if (*title == mark)
			return true;
	return false;
}

/* The marks of a title are not shown. */
static const char *cell(const struct table *table, unsigned row, unsigned column)
{
	const char *text = table->cells[row * table->n_columns + column];

	return row == 0 ? text + strspn(text, MARKS) : text;
}

/* ---- fitting ---- */

/* The width of each column; 0: it is left out, or empty. */
struct widths {
	unsigned n[COLUMNS_MAX];
};

/* Columns that are left out take their gap with them. */
static unsigned total(const struct table *table, const struct widths *widths)
{
	unsigned sum = 0, n_shown = 0;

	for (unsigned i = 0; i < table->n_columns; i++) {
		sum += widths->n[i];
		n_shown += widths->n[i] > 0;
	}
	return sum + (n_shown ? (n_shown - 1) * GAP : 0);
}

/* The widest column whose texts may be cut and that is wider than least; -1 if there is none. */
static int find_longest(const struct table *table, const struct widths *widths, unsigned least)
{
	int longest = -1;

	for (unsigned i = 0; i < table->n_columns; i++)
		if ((has_mark(table, i, MARK_CUT) || has_mark(table, i, MARK_CUT_END)) &&
		    widths->n[i] > least && (longest < 0 || widths->n[i] > widths->n[longest]))
			longest = (int)i;
	return longest;
}

/* Always the widest column by one, so that long columns end alike and short ones stay whole. */
static void cut(const struct table *table, struct widths *widths, unsigned room, unsigned least)
{
	int i;

	while (total(table, widths) > room && (i = find_longest(table, widths, least)) >= 0)
		widths->n[i]--;
}

/* From the right: titles have their columns in the order of importance. */
static void leave_out(const struct table *table, struct widths *widths, unsigned room)
{
	for (unsigned i = table->n_columns; i-- > 0 && total(table, widths) > room;)
		if (has_mark(table, i, MARK_OPTIONAL))
			widths->n[i] = 0;
}

/* A pipe or a file has no width: there all is printed whole, for programs to read. */
static struct widths measure(const struct table *table)
{
	struct widths widths = {0};
	unsigned room = terminal_columns();

	for (unsigned row = 0; row < table->n_rows; row++)
		for (unsigned i = 0; i < table->n_columns; i++)
			widths.n[i] = MAX(widths.n[i], width(cell(table, row, i)));
	if (room) {
		cut(table, &widths, room, CUT_FIRST);
		leave_out(table, &widths, room);
		cut(table, &widths, room, CUT_LAST);
	}
	return widths;
}

/* ---- printing ---- */

/* The first byte behind n characters. */
static const char *skip(const char *text, unsigned n)
{
	for (; n && *text; n--)
		do
			text++;
		while (((unsigned char)*text & 0xc0) == 0x80);
	return text;
}

/* Names differ at their end ("nqn.2014-08.org.nvmexpress:uuid:..."), words at their beginning. */
static void print_cut(const struct table *table, const char *text, unsigned column, unsigned room)
{
	const char *end = skip(text, room - 1);

	if (has_mark(table, column, MARK_CUT_END))
		printf("%.*s" CUT, (int)(end - text), text);
	else
		printf(CUT "%s", skip(text, width(text) - (room - 1)));
}

static void print_cell(const struct table *table, const char *text, unsigned column, unsigned room,
		       bool is_last)
{
	unsigned n = width(text);
	int n_fill = n < room ? (int)(room - n) : 0;

	if (n > room)
		print_cut(table, text, column, room);
	else if (has_mark(table, column, MARK_RIGHT))
		printf("%*s%s", n_fill, "", text);
	else
		printf("%s%*s", text, is_last ? 0 : n_fill, "");
}

/* No cell is padded at the end of a line: copied text has no trailing blanks. */
static void print_row(const struct table *table, unsigned row, const struct widths *widths)
{
	unsigned n_columns = table->n_columns;

	while (n_columns && (!widths->n[n_columns - 1] || !*cell(table, row, n_columns - 1)))
		n_columns--; /* no blanks at the end */
	for (unsigned i = 0; i < n_columns; i++) {
		bool is_last = i + 1 == n_columns;

		if (!widths->n[i])
			continue;
		print_cell(table, cell(table, row, i), i, widths->n[i], is_last);
		if (!is_last)
			printf("%*s", GAP, "");
	}
	putchar('\n');
}

void table_end(struct table *table)
{
	struct widths widths = measure(table);

	check(table->at % table->n_columns == 0); /* the last row is whole */
	for (unsigned row = 0; row < table->n_rows; row++)
		print_row(table, row, &widths);
	for (unsigned i = 0; i < table->at; i++)
		free(table->cells[i]);
	free(table->cells);
	*table = (struct table){0};
}
