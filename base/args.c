/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines; see args.h. Called by main() and the subcommands before anything else runs.
 *
 * Not getopt_long. It accepts abbreviations, so any new option can change what a script means. It
 * also does not report which value of which option was wrong. The parser keeps what users of
 * getopt_long rely on: -xVALUE, clusters of flags, permutation, "--", "-" as positional.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/conf_guess.h"
#include "base/output.h"
#include "base/units.h"

enum {
	GO_ON = -1,
	HELP_WIDTH = 80,
	HELP_COLUMN_MAX = 30, /* the help of a longer option begins on the next line */
	LEFT_MAX = 100,
	HELP_MAX = 400,
};

struct parser {
	const struct args_usage *usage;
	const struct arg *table;
	int argc, at;
	char **argv;
};

__attribute__((format(printf, 2, 3))) static int bad_usage(const struct parser *p, const char *fmt,
							   ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail_with_list(p->usage->program, EXIT_USAGE, NULL, fmt, ap);
	va_end(ap);
	return EXIT_USAGE;
}

/* Help texts */

/* Prints text, broken at blanks. The cursor is at column; further lines begin there. */
static void print_wrapped(const char *text, unsigned column)
{
	size_t room = HELP_WIDTH - column;

	while (strlen(text) > room) {
		size_t n = room;

		while (n && text[n] != ' ')
			n--;
		if (!n)
			break; /* one word is longer than the line */
		printf("%.*s\n%*s", (int)n, text, (int)column, "");
		text += n + 1;
	}
	puts(text);
}

static void print_row(const char *left, const char *help, unsigned column)
{
	if (strlen(left) + 2 > column)
		printf("%s\n%*s", left, (int)column, "");
	else
		printf("%-*s", (int)column, left);
	print_wrapped(help, column);
}

/* "NAME", or "auto|nbd|socket". */
static const char *format_placeholder(char buf[LEFT_MAX], const struct arg *arg)
{
	size_t n = 0;

	if (arg->placeholder || arg->type != ARG_CHOICE)
		return arg->placeholder ? arg->placeholder : "VALUE";
	for (unsigned i = 0; arg->choices[i] && n < LEFT_MAX; i++)
		n += (size_t)snprintf(buf + n, LEFT_MAX - n, "%s%s", i ? "|" : "", arg->choices[i]);
	return buf;
}

static void format_left(char buf[LEFT_MAX], const struct arg *arg)
{
	char letter[] = {'-', arg->letter, ',', ' ', '\0'}, choices[LEFT_MAX];
	const char *value = format_placeholder(choices, arg);
	bool is_flag = arg->type == ARG_FLAG;

	snprintf(buf, LEFT_MAX, "  %s--%s%s%s", arg->letter ? letter : "    ", arg->name,
		 is_flag ? "" : " ", is_flag ? "" : value);
}

static const struct arg standard[] = {
	{.name = "help", .letter = 'h', .type = ARG_FLAG, .help = "show this help and exit"},
	{.name = "version", .type = ARG_FLAG, .help = "show the version and exit"},
	{0},
};

static unsigned widest(const struct arg *arg, unsigned column)
{
	char left[LEFT_MAX];

	for (; arg->name; arg++) {
		format_left(left, arg);
		column = MAX(column, (unsigned)MIN(strlen(left) + 2, HELP_COLUMN_MAX));
	}
	return column;
}

static void print_options(const struct arg *arg, unsigned column)
{
	char left[LEFT_MAX], help[HELP_MAX];

	for (; arg->name; arg++) {
		format_left(left, arg);
		snprintf(help, sizeof(help), "%s%s%s%s", arg->help,
			 arg->standard ? " (default: " : "", arg->standard ? arg->standard : "",
			 arg->standard ? ")" : "");
		print_row(left, help, column);
	}
}

static int print_help(const struct args_usage *usage, const struct arg *table)
{
	unsigned column = widest(table, widest(standard, 0));

	printf("Usage: %s [OPTION]...%s%s\n\n", usage->program,
	       usage->positional && *usage->positional ? " " : "",
	       usage->positional ? usage->positional : "");
	print_wrapped(usage->summary, 0);
	printf("\nOptions:\n");
	print_options(table, column);
	print_options(standard, column);
	return EXIT_OK;
}

static int print_version(const char *program)
{
	printf("%.*s " RBLK_VERSION "\n", (int)strcspn(program, " "), program);
	return EXIT_OK;
}

/* Values */

static const char *format_value(char buf[UNITS_MAX], enum arg_type type, uint64_t value)
{
	if (type == ARG_SIZE)
		return units_format_exact(buf, value);
	if (type == ARG_DURATION)
		return units_format_duration(buf, value);
	snprintf(buf, UNITS_MAX, "%" PRIu64, value);
	return buf;
}

static int refuse_range(const struct parser *p, const struct arg *arg, const char *text)
{
	char min[UNITS_MAX], max[UNITS_MAX];

	format_value(min, arg->type, arg->min);
	if (!arg->max)
		return bad_usage(p, "--%s must be at least %s, not %s", arg->name, min, text);
	return bad_usage(p, "--%s must be between %s and %s, not %s", arg->name, min,
			 format_value(max, arg->type, arg->max), text);
}

static int set_number(const struct parser *p, const struct arg *arg, const char *text)
{
	uint64_t value;
	int r = arg->type == ARG_SIZE	    ? units_parse_size(text, &value)
		: arg->type == ARG_DURATION ? units_parse_duration(text, &value)
					    : units_parse_uint(text, &value);

	if (r == -ERANGE && !arg->max)
		return bad_usage(p, "--%s is too large: %s", arg->name, text);
	if (r < 0 && r != -ERANGE)
		return bad_usage(p, "--%s must be %s, not '%s'", arg->name,
				 arg->type == ARG_SIZE	     ? "a size such as 64MiB"
				 : arg->type == ARG_DURATION ? "a duration such as 500ms"
							     : "a number",
				 text);
	if (r == -ERANGE || value < arg->min || (arg->max && value > arg->max))
		return refuse_range(p, arg, text);
	*(uint64_t *)arg->value = value;
	return GO_ON;
}

static int set_choice(const struct parser *p, const struct arg *arg, const char *text)
{
	const char *guess;
	char list[256] = "";

	for (unsigned i = 0; arg->choices[i]; i++) {
		size_t n = strlen(list);

		if (!strcmp(text, arg->choices[i])) {
			*(unsigned *)arg->value = i;
			return GO_ON;
		}
		snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "", arg->choices[i]);
	}
	guess = conf_did_you_mean(text, arg->choices);
	return bad_usage(p, "--%s must be one of %s, not '%s'%s%s%s", arg->name, list, text,
			 guess ? " (did you mean '" : "", guess ? guess : "", guess ? "'?)" : "");
}

static int add_item(const struct parser *p, const struct arg *arg, const char *text)
{
	struct arg_list *list = arg->value;

	if (list->n == (arg->max ? arg->max : ARG_LIST_MAX))
		return bad_usage(p, "--%s: at most %u of them", arg->name, list->n);
	list->items[list->n++] = text;
	return GO_ON;
}

static int set_value(const struct parser *p, const struct arg *arg, const char *text)
{
	if (arg->text)
		*arg->text = text ? text : "yes";
	switch (arg->type) {
	case ARG_FLAG:
		*(bool *)arg->value = true;
		return GO_ON;
	case ARG_STRING:
		*(const char **)arg->value = text;
		return GO_ON;
	case ARG_UINT:
	case ARG_SIZE:
	case ARG_DURATION:
		return set_number(p, arg, text);
	case ARG_CHOICE:
		return set_choice(p, arg, text);
	case ARG_LIST:
		return add_item(p, arg, text);
	}
	return GO_ON;
}

/* Options */

/* A next argument that begins with -- is an option, so the value is missing. */
static int take_next_value(struct parser *p, const struct arg *arg)
{
	const char *value = p->at + 1 < p->argc ? p->argv[p->at + 1] : NULL;
	char choices[LEFT_MAX];

	if (!value || !strncmp(value, "--", 2))
		return bad_usage(p, "--%s needs a value: %s", arg->name,
				 format_placeholder(choices, arg));
	p->at++;
	return set_value(p, arg, value);
}

static int run_standard(const struct parser *p, const struct arg *arg)
{
	if (arg == &standard[0])
		return print_help(p->usage, p->table);
	return print_version(p->usage->program);
}

static const struct arg *find_long(const struct parser *p, const char *name, size_t n)
{
	for (const struct arg *arg = p->table; arg->name; arg++)
		if (strlen(arg->name) == n && !memcmp(arg->name, name, n))
			return arg;
	for (const struct arg *arg = standard; arg->name; arg++)
		if (strlen(arg->name) == n && !memcmp(arg->name, name, n))
			return arg;
	return NULL;
}

static int refuse_long(const struct parser *p, const char *name, size_t n)
{
	_autofree_ char *wrong = strndup(name, n);
	_autofree_ const char **names = NULL;
	const char *guess = NULL;
	unsigned n_names = 0;

	while (p->table[n_names].name)
		n_names++;
	names = calloc(n_names + 3, sizeof(*names));
	if (names && wrong) {
		for (unsigned i = 0; i < n_names; i++)
			names[i] = p->table[i].name;
		names[n_names] = standard[0].name;
		names[n_names + 1] = standard[1].name;
		guess = conf_did_you_mean(wrong, names);
	}
	return bad_usage(p, "unknown option '--%.*s'%s%s%s", (int)n, name,
			 guess ? " (did you mean '--" : "", guess ? guess : "", guess ? "'?)" : "");
}

/* "name" or "name=value", after the dashes. */
static int parse_long(struct parser *p, const char *name)
{
	size_t n = strcspn(name, "=");
	const struct arg *arg = find_long(p, name, n);

	if (!arg)
		return refuse_long(p, name, n);
	if (arg->type == ARG_FLAG && name[n])
		return bad_usage(p, "--%s takes no value", arg->name);
	if (!arg->value)
		return run_standard(p, arg);
	if (arg->type == ARG_FLAG || name[n])
		return set_value(p, arg, name[n] ? name + n + 1 : NULL);
	return take_next_value(p, arg);
}

static const struct arg *find_letter(const struct parser *p, char letter)
{
	for (const struct arg *arg = p->table; arg->name; arg++)
		if (arg->letter == letter)
			return arg;
	return letter == standard[0].letter ? &standard[0] : NULL;
}

/* "n", "nVALUE", or several flags "jv", after the dash. */
static int parse_letters(struct parser *p, const char *letters)
{
	for (; *letters; letters++) {
		const struct arg *arg = find_letter(p, *letters);
		int r;

		if (!arg)
			return bad_usage(p, "unknown option '-%c'", *letters);
		if (!arg->value)
			return run_standard(p, arg);
		if (arg->type != ARG_FLAG)
			return letters[1] ? set_value(p, arg, letters + 1)
					  : take_next_value(p, arg);
		r = set_value(p, arg, NULL);
		if (r != GO_ON)
			return r;
	}
	return GO_ON;
}

/* Moves argv[from..to) in front of argv[first..from), the positional arguments so far. */
static void move_forward(char **argv, int first, int from, int to)
{
	for (; from < to; from++, first++) {
		char *moved = argv[from];

		memmove(&argv[first + 1], &argv[first], (size_t)(from - first) * sizeof(*argv));
		argv[first] = moved;
	}
}

static int parse_option(struct parser *p)
{
	const char *s = p->argv[p->at];

	return s[1] == '-' ? parse_long(p, s + 2) : parse_letters(p, s + 1);
}

static int check_positional(const struct parser *p, int first)
{
	unsigned n = (unsigned)(p->argc - first);

	if (n > p->usage->max_positional)
		return bad_usage(p, "unexpected argument '%s'",
				 p->argv[first + (int)p->usage->max_positional]);
	if (n < p->usage->min_positional)
		return bad_usage(p, "missing argument, expected %s", p->usage->positional);
	return GO_ON;
}

int args_parse(const struct args_usage *usage, const struct arg *table, int argc, char **argv,
	       int *ret_positional)
{
	struct parser p = {.usage = usage, .table = table, .argc = argc, .argv = argv, .at = 1};
	int first = 1, r;

	while (p.at < argc) {
		int from = p.at;
		bool is_end = !strcmp(argv[from], "--");

		if (!is_end && (argv[from][0] != '-' || !argv[from][1])) {
			p.at++;
			continue;
		}
		r = is_end ? GO_ON : parse_option(&p);
		if (r != GO_ON)
			return r;
		p.at++;
		move_forward(argv, first, from, p.at);
		first += p.at - from;
		if (is_end)
			break;
	}
	r = check_positional(&p, first);
	if (r == GO_ON)
		*ret_positional = first;
	return r;
}

/* Subcommands */

struct commands {
	const char *program;
	const char *summary;
	const struct subcommand *table;
};

/* How many words of argv name this subcommand, 1 or 2; 0: they do not. */
static int n_matching_words(const char *name, int n_words, char **words)
{
	size_t n = strlen(words[0]);

	if (strncmp(name, words[0], n))
		return 0;
	if (!name[n])
		return 1;
	return name[n] == ' ' && n_words > 1 && !strcmp(name + n + 1, words[1]) ? 2 : 0;
}

static const struct subcommand *find_command(const struct commands *c, int n_words, char **words,
					     int *ret_n_matching)
{
	const struct subcommand *best = NULL;

	*ret_n_matching = 0;
	for (const struct subcommand *sub = c->table; sub->name; sub++) {
		int n = n_matching_words(sub->name, n_words, words);

		if (n > *ret_n_matching) {
			best = sub;
			*ret_n_matching = n;
		}
	}
	return best;
}

static bool is_in_group(const struct subcommand *sub, const char *group)
{
	size_t n = strlen(group);

	return !strncmp(sub->name, group, n) && sub->name[n] == ' ';
}

static bool is_group(const struct commands *c, const char *word)
{
	for (const struct subcommand *sub = c->table; sub->name; sub++)
		if (is_in_group(sub, word))
			return true;
	return false;
}

/* All commands, or those of one group. */
static int print_commands(const struct commands *c, const char *group)
{
	size_t column = 0;

	printf("Usage: %s %s%sCOMMAND [ARGUMENT]...\n\n", c->program, group ? group : "",
	       group ? " " : "");
	print_wrapped(c->summary, 0);
	printf("\nCommands:\n");
	for (const struct subcommand *sub = c->table; sub->name; sub++)
		column = MAX(column, strlen(sub->name) + 4);
	for (const struct subcommand *sub = c->table; sub->name; sub++) {
		char left[LEFT_MAX];

		if (group && !is_in_group(sub, group))
			continue;
		snprintf(left, sizeof(left), "  %s", sub->name);
		print_row(left, sub->help, (unsigned)column);
	}
	printf("\nSee '%s help COMMAND' for one of them.\n", c->program);
	return EXIT_OK;
}

static int refuse_command(const struct commands *c, int n_words, char **words)
{
	bool is_half = is_group(c, words[0]) && (n_words == 1 || words[1][0] == '-');
	bool has_two = n_words > 1 && is_group(c, words[0]);
	_autofree_ const char **names = NULL;
	_autofree_ char *wrong = NULL;
	const char *guess = NULL;
	unsigned n = 0;

	if (is_half)
		return fail_with(c->program, EXIT_USAGE, NULL,
				 "'%s' needs a command, see '%s help %s'", words[0], c->program,
				 words[0]);
	while (c->table[n].name)
		n++;
	names = calloc(n + 1, sizeof(*names));
	if (asprintf(&wrong, "%s%s%s", words[0], has_two ? " " : "", has_two ? words[1] : "") < 0)
		wrong = NULL;
	if (names && wrong) {
		for (unsigned i = 0; i < n; i++)
			names[i] = c->table[i].name;
		guess = conf_did_you_mean(wrong, names);
	}
	return fail_with(c->program, EXIT_USAGE, NULL, "unknown command '%s'%s%s%s",
			 wrong ? wrong : words[0], guess ? " (did you mean '" : "",
			 guess ? guess : "", guess ? "'?)" : "");
}

static int run(const struct subcommand *sub, int argc, char **argv)
{
	return sub->run ? sub->run(argc, argv) : sub->run_row(sub->row, argc, argv);
}

static bool is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int run_help(const struct commands *c, int n_words, char **words)
{
	char option[] = "--help";
	const struct subcommand *sub;
	char *argv[3] = {NULL, option, NULL};
	int n_matching;

	if (!n_words)
		return print_commands(c, NULL);
	sub = find_command(c, n_words, words, &n_matching);
	if (n_words > MAX(n_matching, 1) && !is_group(c, words[0]))
		return fail_with(c->program, EXIT_USAGE, NULL, "unexpected argument '%s'",
				 words[MAX(n_matching, 1)]);
	if (!sub && n_words == 1 && is_group(c, words[0]))
		return print_commands(c, words[0]);
	if (!sub)
		return refuse_command(c, n_words, words);
	argv[0] = words[n_matching - 1];
	return run(sub, 2, argv);
}

static int run_command(const struct commands *c, int n_words, char **words)
{
	const struct subcommand *sub;
	int n_matching;

	sub = find_command(c, n_words, words, &n_matching);
	if (sub)
		return run(sub, n_words - n_matching + 1, words + n_matching - 1);
	if (n_words > 1 && is_group(c, words[0]) && is_help(words[1]))
		return print_commands(c, words[0]);
	return refuse_command(c, n_words, words);
}

int args_run_subcommand(const char *program, const char *summary, const struct subcommand *table,
			int argc, char **argv)
{
	struct commands c = {.program = program, .summary = summary, .table = table};

	output_look(argc, argv);
	if (argc < 2)
		return fail_with(program, EXIT_USAGE, NULL, "no command given, see '%s --help'",
				 program);
	if (is_help(argv[1]))
		return print_commands(&c, NULL);
	if (!strcmp(argv[1], "--version"))
		return print_version(program);
	if (argv[1][0] == '-')
		return fail_with(program, EXIT_USAGE, NULL, "unknown option '%s', see '%s --help'",
				 argv[1], program);
	if (!strcmp(argv[1], "help"))
		return run_help(&c, argc - 2, argv + 2);
	return run_command(&c, argc - 1, argv + 1);
}
