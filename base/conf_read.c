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
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/check.h"
#include "base/conf.h"
#include "base/conf_node.h"
#include "base/conf_read.h"
#include "base/conf_report.h"
#include "base/conf_schema.h"

enum {
	MAX_NODES = 100000,
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
	struct conf_mark mark = conf_mark_of_offset(b->conf, b->yaml.problem_offset);

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
	check(b->depth < CONF_MAX_DEPTH);
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
		check(b->depth > 0); /* libyaml pairs them, whatever the text */
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
