/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines and columns are counted as in libyaml, in characters; the caret lines rely on it. Text of
 * the file is printed so that it cannot control the terminal.
 */
#include <stdarg.h>
#include <string.h>

#include "base/bits.h"
#include "base/conf_node.h"
#include "base/conf_report.h"

enum {
	CARET_WIDTH = 90,  /* characters shown of a line */
	CARET_BEFORE = 60, /* at most so many of them in front of the mistake */
};

/* Bytes of the line break at p, 0 if there is none. The same breaks as in libyaml. */
static unsigned break_length(const char *p, const char *end)
{
	size_t n = (size_t)(end - p);

	if (n >= 2 && !memcmp(p, "\r\n", 2))
		return 2;
	if (n >= 1 && (*p == '\n' || *p == '\r'))
		return 1;
	if (n >= 2 && !memcmp(p, "\xc2\x85", 2))
		return 2;
	if (n >= 3 && (!memcmp(p, "\xe2\x80\xa8", 3) || !memcmp(p, "\xe2\x80\xa9", 3)))
		return 3;
	return 0;
}

/* Bytes of the character at p < end, 0 if it is not well-formed UTF-8. */
static unsigned utf8_length(const char *p, const char *end)
{
	unsigned char lead = (unsigned char)*p;
	unsigned n = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;

	if (lead > 0xf4 || end - p < n)
		return 0;
	for (unsigned i = 1; i < n; i++)
		if (((unsigned char)p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

struct conf_mark conf_mark_of_offset(const struct conf *conf, size_t offset)
{
	struct conf_mark mark = {.line = 1, .column = 1, .length = 1};
	const char *p = conf->text, *end = conf->text + conf->n;
	const char *at = p + MIN(offset, conf->n);

	while (p < at) {
		unsigned n = break_length(p, end);

		if (n) {
			mark.line++;
			mark.column = 1;
		} else {
			n = utf8_length(p, end);
			mark.column++;
		}
		p += n ? n : 1;
	}
	return mark;
}

static const char *find_line(const struct conf *conf, unsigned line)
{
	const char *p = conf->text, *end = conf->text + conf->n;

	while (p < end && line > 1) {
		unsigned n = break_length(p, end);

		if (n)
			line--;
		p += n ? n : 1;
	}
	return p;
}

/* Prints one character so that it takes one column and cannot control the terminal. */
static void print_char(FILE *out, const char *p, unsigned n)
{
	if (n == 0 || (n == 1 && (*p == 0x7f || ((unsigned char)*p < ' ' && *p != '\t'))))
		fputc('?', out);
	else if (*p == '\t')
		fputc(' ', out);
	else
		fwrite(p, 1, n, out);
}

/* Prints the line of the mark, or the part of a long line around it, and a caret line below. */
static void print_source(const struct conf *conf, struct conf_mark mark)
{
	const char *p = find_line(conf, mark.line), *end = conf->text + conf->n;
	unsigned first = mark.column > CARET_BEFORE + 10 ? mark.column - CARET_BEFORE : 1;
	unsigned column = 1, indent = mark.column - first + (first > 1 ? 3 : 0);

	if (p == end || break_length(p, end))
		return; /* nothing to show in an empty line */
	if (first > 1)
		fputs("...", conf->out);
	for (; p < end && !break_length(p, end) && column < first + CARET_WIDTH; column++) {
		unsigned n = utf8_length(p, end);

		if (column >= first)
			print_char(conf->out, p, n);
		p += n ? n : 1;
	}
	fprintf(conf->out, "\n%*s^", (int)indent, "");
	for (unsigned i = mark.column + 1; i < mark.column + mark.length && i < column; i++)
		fputc('~', conf->out);
	fputc('\n', conf->out);
}

/* One mistake. False: it is one too many to be shown. */
static bool count(struct conf *conf, enum exit_code code)
{
	conf->n_errors++;
	conf->n_busy += code == EXIT_BUSY;
	if (conf->n_errors == CONF_MAX_ERRORS + 1)
		fprintf(conf->out, "%s: error: more than %d mistakes, not all are shown\n",
			conf->name, CONF_MAX_ERRORS);
	return conf->n_errors <= CONF_MAX_ERRORS;
}

static void print_place(const struct conf *conf, struct conf_mark mark)
{
	fputs(conf->name, conf->out);
	if (mark.line)
		fprintf(conf->out, ":%u:%u", mark.line, mark.column);
	fputs(": error: ", conf->out);
}

void conf_report(struct conf *conf, struct conf_mark mark, const struct error *error)
{
	if (!count(conf, error->code))
		return;
	print_place(conf, mark);
	fprintf(conf->out, "%s\n", error->message);
	if (mark.line)
		print_source(conf, mark);
}

void conf_error(struct conf *conf, struct conf_mark mark, const char *fmt, ...)
{
	struct error error;
	va_list ap;

	va_start(ap, fmt);
	error_set_list(&error, EXIT_CONFIG, NULL, fmt, ap);
	va_end(ap);
	conf_report(conf, mark, &error);
}

void conf_begin_again(struct conf *conf, FILE *out)
{
	conf->out = out;
	conf->n_errors = conf->n_busy = 0;
}

bool conf_is_busy(const struct conf *conf)
{
	return conf->n_errors && conf->n_busy == conf->n_errors;
}

unsigned conf_n_errors(const struct conf *conf)
{
	return conf->n_errors;
}
