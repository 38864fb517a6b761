/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading configuration files; see conf.h. Control thread of a program, at start and on reload.
 *
 *   text --libyaml events--> tree of conf_node --conf_apply (conf_schema.c)--> caller's struct
 *
 * The text comes from an administrator, but a control socket may carry it, so the reader treats it
 * as hostile: size, depth and the number of nodes are bounded, and aliases are refused. No input
 * takes more than about 20 MiB. A syntax error is the last message, since there is no tree after
 * it; all other errors are collected.
 *
 * Lines and columns are counted as in libyaml, in characters; the caret lines rely on it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/conf.h"
#include "base/conf_node.h"

enum {
	MAX_NODES = 100000,
	CARET_WIDTH = 90,  /* characters shown of a line */
	CARET_BEFORE = 60, /* at most so many of them in front of the mistake */
	MAX_NAME = 64,	   /* longest name that did-you-mean compares */
};

struct conf {
	char *name; /* owned */
	char *text; /* owned */
	size_t n;
	FILE *out;		   /* borrowed: outlives conf */
	unsigned n_errors, n_busy; /* n_busy: those marked by conf_note_busy */
	struct conf_node *nodes;   /* owned: all of them, while reading */
};

/* The state of the builder that turns libyaml's events into nodes. */
struct builder {
	struct conf *conf;
	yaml_parser_t yaml;
	struct conf_node *root;
	struct conf_node **tail[CONF_MAX_DEPTH + 1]; /* where the next node of each depth goes */
	unsigned depth, n_nodes, n_documents;
	bool is_complete; /* the end was reached */
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

/* The line and column of the character at a byte offset. */
static struct conf_mark mark_of_offset(const struct conf *conf, size_t offset)
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

void conf_error(struct conf *conf, struct conf_mark mark, const char *fmt, ...)
{
	va_list ap;

	conf->n_errors++;
	if (conf->n_errors == CONF_MAX_ERRORS + 1)
		fprintf(conf->out, "%s: error: more than %d mistakes, not all are shown\n",
			conf->name, CONF_MAX_ERRORS);
	if (conf->n_errors > CONF_MAX_ERRORS)
		return;
	fputs(conf->name, conf->out);
	if (mark.line)
		fprintf(conf->out, ":%u:%u", mark.line, mark.column);
	fputs(": error: ", conf->out);
	va_start(ap, fmt);
	vfprintf(conf->out, fmt, ap);
	va_end(ap);
	fputc('\n', conf->out);
	if (mark.line)
		print_source(conf, mark);
}

void conf_note_busy(struct conf *conf)
{
	conf->n_busy++;
}

bool conf_is_busy(const struct conf *conf)
{
	return conf->n_errors && conf->n_busy == conf->n_errors;
}

unsigned conf_n_errors(const struct conf *conf)
{
	return conf->n_errors;
}

static struct conf_mark mark_of_yaml(yaml_mark_t start, yaml_mark_t end)
{
	return (struct conf_mark){
		.line = (unsigned)start.line + 1,
		.column = (unsigned)start.column + 1,
		.length = end.line == start.line && end.column > start.column
				  ? (unsigned)(end.column - start.column)
				  : 1,
	};
}

static void report_encoding(struct builder *b)
{
	struct conf_mark mark = mark_of_offset(b->conf, b->yaml.problem_offset);

	if (!strncmp(b->yaml.problem, "control", strlen("control")))
		conf_error(b->conf, mark, "control character U+%04X is not allowed",
			   (unsigned)b->yaml.problem_value);
	else
		conf_error(b->conf, mark, "not UTF-8 text: %s", b->yaml.problem);
}

static void report_syntax(struct builder *b)
{
	const yaml_parser_t *yaml = &b->yaml;
	struct conf_mark mark = mark_of_yaml(yaml->problem_mark, yaml->problem_mark);
	const char *at = (const char *)b->yaml.buffer.pointer;

	if (yaml->error == YAML_MEMORY_ERROR || !yaml->problem) {
		conf_error(b->conf, (struct conf_mark){0}, "out of memory");
		return;
	}
	if (yaml->error == YAML_READER_ERROR) {
		report_encoding(b);
		return;
	}
	if (yaml->error == YAML_SCANNER_ERROR && at && at < (char *)yaml->buffer.last &&
	    *at == '\t' && strstr(yaml->problem, "cannot start any token"))
		conf_error(b->conf, mark, "a tab cannot be used for indentation, use spaces");
	else if (yaml->context && yaml->context_mark.line != yaml->problem_mark.line)
		conf_error(b->conf, mark, "%s %s that starts on line %zu", yaml->problem,
			   yaml->context, yaml->context_mark.line + 1);
	else if (yaml->context)
		conf_error(b->conf, mark, "%s %s", yaml->problem, yaml->context);
	else
		conf_error(b->conf, mark, "%s", yaml->problem);
}

static bool is_null_text(const char *s)
{
	return !*s || !strcmp(s, "~") || !strcmp(s, "null");
}

static struct conf_node *add_node(struct builder *b, enum conf_node_kind kind,
				  const yaml_event_t *event, const void *text, size_t n)
{
	struct conf_mark mark = mark_of_yaml(event->start_mark, event->end_mark);
	struct conf_node *node;

	if (++b->n_nodes > MAX_NODES) {
		conf_error(b->conf, mark, "more than %d entries in one file", MAX_NODES);
		return NULL;
	}
	node = calloc(1, sizeof(*node) + n + 1);
	if (!node) {
		conf_error(b->conf, mark, "out of memory");
		return NULL;
	}
	node->kind = kind;
	node->mark = mark;
	if (n)
		memcpy(node->text, text, n);
	node->allocated = b->conf->nodes;
	b->conf->nodes = node;
	*b->tail[b->depth] = node;
	b->tail[b->depth] = &node->next;
	return node;
}

static void refuse_extras(struct builder *b, const yaml_event_t *event, const yaml_char_t *anchor,
			  const yaml_char_t *tag)
{
	struct conf_mark mark = mark_of_yaml(event->start_mark, event->start_mark);

	if (anchor)
		conf_error(b->conf, mark, "anchors (&name) are not supported, repeat the text");
	if (tag)
		conf_error(b->conf, mark, "tags (!type) are not supported, leave it out");
}

static bool add_scalar(struct builder *b, const yaml_event_t *event)
{
	struct conf_node *node = add_node(b, CONF_NODE_SCALAR, event, event->data.scalar.value,
					  event->data.scalar.length);

	if (!node)
		return false;
	refuse_extras(b, event, event->data.scalar.anchor, event->data.scalar.tag);
	if (strlen(node->text) != event->data.scalar.length) {
		conf_error(b->conf, node->mark, "NUL characters (\\0) are not supported");
		node->kind = CONF_NODE_BAD;
	}
	node->is_null = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
			is_null_text(node->text);
	return true;
}

static bool add_alias(struct builder *b, const yaml_event_t *event)
{
	conf_error(b->conf, mark_of_yaml(event->start_mark, event->end_mark),
		   "aliases (*name) are not supported, repeat the text");
	return add_node(b, CONF_NODE_BAD, event, NULL, 0) != NULL;
}

static bool open_collection(struct builder *b, enum conf_node_kind kind, const yaml_event_t *event)
{
	struct conf_node *node = add_node(b, kind, event, NULL, 0);

	if (!node)
		return false;
	if (b->depth == CONF_MAX_DEPTH) {
		conf_error(b->conf, node->mark, "nested more than %d deep", CONF_MAX_DEPTH);
		return false;
	}
	b->tail[++b->depth] = &node->first;
	return true;
}

static bool open_document(struct builder *b, const yaml_event_t *event)
{
	if (!b->n_documents++)
		return true;
	conf_error(b->conf, mark_of_yaml(event->start_mark, event->end_mark),
		   "only one document is allowed in a file");
	return false;
}

/* False ends the parsing. */
static bool take_event(struct builder *b, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		return true;
	case YAML_STREAM_END_EVENT:
		b->is_complete = true;
		return false;
	case YAML_DOCUMENT_START_EVENT:
		return open_document(b, event);
	case YAML_ALIAS_EVENT:
		return add_alias(b, event);
	case YAML_SCALAR_EVENT:
		return add_scalar(b, event);
	case YAML_SEQUENCE_START_EVENT:
		refuse_extras(b, event, event->data.sequence_start.anchor,
			      event->data.sequence_start.tag);
		return open_collection(b, CONF_NODE_SEQUENCE, event);
	case YAML_MAPPING_START_EVENT:
		refuse_extras(b, event, event->data.mapping_start.anchor,
			      event->data.mapping_start.tag);
		return open_collection(b, CONF_NODE_MAPPING, event);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		b->depth--;
		return true;
	}
	return false;
}

static void build_tree(struct builder *b)
{
	bool goes_on = true;

	while (goes_on) {
		yaml_event_t event;

		if (!yaml_parser_parse(&b->yaml, &event)) {
			report_syntax(b);
			return;
		}
		goes_on = take_event(b, &event);
		yaml_event_delete(&event);
	}
}

/* The tree of the text; NULL: there is none, and the mistakes are reported. */
static struct conf_node *parse_text(struct conf *conf)
{
	struct builder b = {.conf = conf};
	unsigned n_before = conf->n_errors;

	b.tail[0] = &b.root;
	if (!yaml_parser_initialize(&b.yaml)) {
		conf_error(conf, (struct conf_mark){0}, "out of memory");
		return NULL;
	}
	/* Set, since libyaml would else guess UTF-16 from the first bytes. */
	yaml_parser_set_encoding(&b.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&b.yaml, (const yaml_char_t *)conf->text, conf->n);
	build_tree(&b);
	yaml_parser_delete(&b.yaml);
	if (conf->n_errors == n_before && (!b.root || b.root->is_null)) {
		conf_error(conf, (struct conf_mark){0}, "the file is empty");
		return NULL;
	}
	return b.is_complete ? b.root : NULL;
}

static void free_nodes(struct conf *conf)
{
	while (conf->nodes) {
		struct conf_node *node = conf->nodes;

		conf->nodes = node->allocated;
		free(node);
	}
}

/* Owns the text from here on, even on failure. */
int conf_read_owned(const char *name, char *text, size_t n, const struct conf_schema *schema,
		    void *into, FILE *out, struct conf **ret_conf)
{
	struct conf *conf = calloc(1, sizeof(*conf));
	struct conf_node *root = NULL;

	*ret_conf = NULL;
	memset(into, 0, schema->size); /* the caller releases it even on failure */
	if (!conf || !(conf->name = strdup(name))) {
		free(conf);
		free(text);
		return -ENOMEM;
	}
	conf->text = text;
	conf->n = n;
	conf->out = out;
	*ret_conf = conf;
	if (!text)
		return 0;
	if (n > CONF_MAX_TEXT)
		conf_error(conf, (struct conf_mark){0}, "larger than %d MiB",
			   CONF_MAX_TEXT / (1024 * 1024));
	else
		root = parse_text(conf);
	if (root)
		conf_apply(conf, schema, root, into);
	free_nodes(conf);
	return 0;
}

/* A copy without the byte order mark that some editors write. */
static char *copy_text(const char *text, size_t *n)
{
	size_t n_skip = *n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
	char *copy = malloc(*n - n_skip + 1);

	*n -= n_skip;
	if (copy && *n) /* an empty text may be NULL */
		memcpy(copy, text + n_skip, *n);
	if (copy)
		copy[*n] = '\0';
	return copy;
}

int conf_read_text(const char *name, const char *text, size_t n, const struct conf_schema *schema,
		   void *into, FILE *out, struct conf **ret_conf)
{
	char *copy = copy_text(text, &n);

	*ret_conf = NULL;
	memset(into, 0, schema->size);
	if (!copy)
		return -ENOMEM;
	return conf_read_owned(name, copy, n, schema, into, out, ret_conf);
}

void conf_free(struct conf *conf)
{
	if (!conf)
		return;
	free(conf->name);
	free(conf->text);
	free(conf);
}

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
