/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mistake never ends the reading: the field stays zero and the next node is read, so one run
 * reports all mistakes. For the same reason conf_release accepts any half-filled struct.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/conf_guess.h"
#include "base/conf_node.h"
#include "base/conf_report.h"
#include "base/conf_schema.h"
#include "base/units.h"

enum {
	MAX_KEYS = 64,
	NAMES_MAX = 200, /* characters of the list of names in a message */
	SHOWN_MAX = 80,	 /* characters of a wrong value in a message */
};

static void *field_of(const struct conf_key *key, void *base)
{
	return (char *)base + key->offset;
}

static void set_mark(size_t mark_offset, void *base, struct conf_mark mark)
{
	if (mark_offset)
		memcpy((char *)base + mark_offset, &mark, sizeof(mark));
}

static const char *show(char buf[SHOWN_MAX], const char *value)
{
	return log_quote(buf, SHOWN_MAX, value, (unsigned)MIN(strlen(value), SHOWN_MAX));
}

/* "must be ...": what is wrong with a text. False, for the caller to return. */
__attribute__((format(printf, 2, 3))) static bool wrong(struct error *error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	error_set_list(error, EXIT_CONFIG, NULL, fmt, ap);
	va_end(ap);
	return false;
}

static bool parse_bool(const char *text, bool *field, struct error *error)
{
	char shown[SHOWN_MAX];

	if (strcmp(text, "true") && strcmp(text, "false"))
		return wrong(error, "must be true or false, not '%s'", show(shown, text));
	*field = text[0] == 't';
	return true;
}

static const char *format_number(char buf[UNITS_MAX], enum conf_type type, uint64_t value)
{
	if (type == CONF_SIZE)
		return units_format_exact(buf, value);
	if (type == CONF_DURATION)
		return units_format_duration(buf, value);
	snprintf(buf, UNITS_MAX, "%" PRIu64, value);
	return buf;
}

static bool check_range(const struct conf_key *key, const char *text, uint64_t value,
			struct error *error)
{
	char min[UNITS_MAX], max[UNITS_MAX], shown[SHOWN_MAX];

	format_number(min, key->type, key->min);
	format_number(max, key->type, key->max);
	if (key->max && (value < key->min || value > key->max))
		return wrong(error, "must be between %s and %s, not %s", min, max,
			     show(shown, text));
	if (value < key->min)
		return wrong(error, "must be at least %s, not %s", min, show(shown, text));
	return true;
}

static bool parse_number(const struct conf_key *key, const char *text, uint64_t *field,
			 struct error *error)
{
	static const struct {
		int (*parse)(const char *s, uint64_t *ret_value);
		const char *what;
	} kinds[] = {
		[CONF_UINT] = {units_parse_uint, "a number"},
		[CONF_SIZE] = {units_parse_size, "a size such as 64MiB"},
		[CONF_DURATION] = {units_parse_duration, "a duration such as 500ms"},
	};
	char shown[SHOWN_MAX];
	uint64_t value;
	int r = kinds[key->type].parse(text, &value);

	if (r == -ERANGE) /* beyond 64 bits, which is the maximum of a key without one */
		return check_range(key, text, UINT64_MAX, error) && !key->max &&
		       wrong(error, "is too large: %s", show(shown, text));
	if (r < 0)
		return wrong(error, "must be %s, not '%s'", kinds[key->type].what,
			     show(shown, text));
	if (!check_range(key, text, value, error))
		return false;
	*field = value;
	return true;
}

static bool parse_enum(const struct conf_key *key, const char *text, unsigned *field,
		       struct error *error)
{
	const char *guess = conf_did_you_mean(text, key->names);
	char list[NAMES_MAX] = "", shown[SHOWN_MAX];

	check(key->names);
	for (unsigned i = 0; key->names[i]; i++) {
		size_t n = strlen(list);

		if (!strcmp(text, key->names[i])) {
			*field = i;
			return true;
		}
		snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "", key->names[i]);
	}
	return wrong(error, "must be one of %s, not '%s'%s%s%s", list, show(shown, text),
		     guess ? " (did you mean '" : "", guess ? guess : "", guess ? "'?)" : "");
}

static bool parse_string(const struct conf_key *key, const char *text, char **field,
			 struct error *error)
{
	size_t n = strlen(text);
	const char *fault;

	if (key->type == CONF_STRING && n < key->min)
		return n ? wrong(error, "must have at least %" PRIu64 " characters", key->min)
			 : wrong(error, "must not be empty");
	if (key->type == CONF_STRING && key->max && n > key->max)
		return wrong(error, "must have at most %" PRIu64 " characters, not %zu", key->max,
			     n);
	fault = key->check ? (key->check)(text) : NULL; /* not the macro */
	if (fault)
		return wrong(error, "%s", fault);
	*field = strdup(text);
	return *field ? true : wrong(error, "does not fit into memory");
}

/* Parses a scalar, from the file or a default. False: *error is filled, the field unchanged. */
static bool parse_scalar(const struct conf_key *key, const char *text, void *field,
			 struct error *error)
{
	const char *fault;

	switch (key->type) {
	case CONF_BOOL:
		return parse_bool(text, field, error);
	case CONF_UINT:
	case CONF_SIZE:
	case CONF_DURATION:
		return parse_number(key, text, field, error);
	case CONF_ENUM:
		return parse_enum(key, text, field, error);
	case CONF_CUSTOM:
		fault = key->parse(text, field);
		return fault ? wrong(error, "%s", fault) : true;
	case CONF_STRING:
	case CONF_LIST: /* an element of a list of strings */
		return parse_string(key, text, field, error);
	case CONF_STRUCT:
	case CONF_MAP:
		break;
	}
	return wrong(error, "has no value of this kind");
}

int conf_parse_value(const struct conf_key *key, const char *text, void *object,
		     struct error *error)
{
	return parse_scalar(key, text, field_of(key, object), error) ? 0 : -EINVAL;
}

static const char *kind_name(enum conf_node_kind kind)
{
	return kind == CONF_NODE_SEQUENCE  ? "a list"
	       : kind == CONF_NODE_MAPPING ? "a mapping"
					   : "a single value";
}

static void apply_scalar(struct conf *conf, const char *label, const struct conf_key *key,
			 const struct conf_node *node, void *field)
{
	struct error error;

	if (node->kind == CONF_NODE_BAD)
		return;
	if (node->kind != CONF_NODE_SCALAR)
		conf_error(conf, node->mark, "%s must be a single value, not %s", label,
			   kind_name(node->kind));
	else if (node->is_null)
		conf_error(conf, node->mark, "%s has no value", label);
	else if (!parse_scalar(key, node->text, field, &error))
		conf_error(conf, node->mark, "%s %s", label, error.message);
}

/* Nodes of a sequence, pairs of a mapping. */
static unsigned count_elements(const struct conf_node *node)
{
	unsigned n = 0;

	for (const struct conf_node *child = node->first; child; child = child->next)
		n++;
	return node->kind == CONF_NODE_MAPPING ? n / 2 : n;
}

static bool check_count(struct conf *conf, const struct conf_key *key, const struct conf_node *node,
			unsigned n)
{
	if (n < key->min)
		conf_error(conf, node->mark, "%s must have at least %" PRIu64 " entr%s", key->name,
			   key->min, key->min == 1 ? "y" : "ies");
	else if (key->max && n > key->max)
		conf_error(conf, node->mark, "%s must have at most %" PRIu64 " entries, not %u",
			   key->name, key->max, n);
	else
		return true;
	return false;
}

/* Allocates the elements. False: there is nothing to read, or a mistake is reported. */
static bool start_list(struct conf *conf, const struct conf_key *key, const struct conf_node *node,
		       enum conf_node_kind kind, size_t size, struct conf_list *list)
{
	unsigned n;

	if (node->kind == CONF_NODE_BAD)
		return false;
	if (node->kind != kind && !node->is_null) {
		conf_error(conf, node->mark, "%s must be %s, not %s", key->name, kind_name(kind),
			   kind_name(node->kind));
		return false;
	}
	n = count_elements(node);
	if (!check_count(conf, key, node, n) || !n)
		return false;
	list->items = calloc(n, size);
	if (!list->items) {
		conf_error(conf, node->mark, "%s does not fit into memory", key->name);
		return false;
	}
	list->n = n;
	return true;
}

static void apply_struct(struct conf *conf, const struct conf_schema *schema,
			 const struct conf_node *node, void *base);
/* label names a scalar in messages: its key, or what the schema describes. */
static void apply_key(struct conf *conf, const struct conf_key *key, const char *label,
		      const struct conf_node *node, void *base);

static void apply_list(struct conf *conf, const struct conf_key *key, const struct conf_node *node,
		       struct conf_list *list)
{
	size_t size = key->schema ? key->schema->size : sizeof(char *);
	char *item;

	if (!start_list(conf, key, node, CONF_NODE_SEQUENCE, size, list))
		return;
	item = list->items;
	for (const struct conf_node *child = node->first; child; child = child->next) {
		if (key->schema)
			apply_struct(conf, key->schema, child, item);
		else
			apply_scalar(conf, key->name, key, child, item);
		item += size;
	}
}

static void apply_map(struct conf *conf, const struct conf_key *key, const struct conf_node *node,
		      struct conf_list *list)
{
	const struct conf_schema *schema = key->schema;
	char *item;

	check(schema && schema->keys[0].name &&
	      schema->keys[1].name); /* of the key, of the value */
	if (!start_list(conf, key, node, CONF_NODE_MAPPING, schema->size, list))
		return;
	item = list->items;
	for (const struct conf_node *child = node->first; child; child = child->next->next) {
		set_mark(schema->mark_offset, item, child->mark);
		apply_key(conf, &schema->keys[0], schema->keys[0].name, child, item);
		apply_key(conf, &schema->keys[1], schema->keys[1].name, child->next, item);
		item += schema->size;
	}
}

static void apply_key(struct conf *conf, const struct conf_key *key, const char *label,
		      const struct conf_node *node, void *base)
{
	void *field = field_of(key, base);

	check(key->schema || (key->type != CONF_STRUCT && key->type != CONF_MAP));
	set_mark(key->mark_offset, base, node->mark);
	if (key->type == CONF_STRUCT)
		apply_struct(conf, key->schema, node, field);
	else if (key->type == CONF_LIST)
		apply_list(conf, key, node, field);
	else if (key->type == CONF_MAP)
		apply_map(conf, key, node, field);
	else
		apply_scalar(conf, label, key, node, field);
}

static void apply_default(struct conf *conf, const struct conf_key *key, void *base)
{
	struct error error;

	if (key->type == CONF_STRUCT)
		for (const struct conf_key *k = key->schema->keys; k->name; k++)
			apply_default(conf, k, field_of(key, base));
	else if (key->default_value &&
		 !parse_scalar(key, key->default_value, field_of(key, base), &error))
		conf_error(conf, (struct conf_mark){0}, "%s, by default %s: %s", key->name,
			   key->default_value, error.message);
}

static void apply_missing(struct conf *conf, const struct conf_schema *schema,
			  const struct conf_node *node, const struct conf_mark *seen, void *base)
{
	for (unsigned i = 0; schema->keys[i].name; i++) {
		const struct conf_key *key = &schema->keys[i];

		if (seen[i].line)
			continue;
		if (key->is_required)
			conf_error(conf, node->mark, "%s lacks the required key '%s'", schema->what,
				   key->name);
		else
			apply_default(conf, key, base);
	}
}

static void refuse_key(struct conf *conf, const struct conf_schema *schema,
		       const struct conf_node *name)
{
	const char *names[MAX_KEYS + 1] = {NULL}, *guess;
	char shown[SHOWN_MAX];

	for (unsigned i = 0; schema->keys[i].name; i++)
		names[i] = schema->keys[i].name;
	guess = conf_did_you_mean(name->text, names);
	conf_error(conf, name->mark, "unknown key '%s' in %s%s%s%s", show(shown, name->text),
		   schema->what, guess ? " (did you mean '" : "", guess ? guess : "",
		   guess ? "'?)" : "");
}

static void apply_pair(struct conf *conf, const struct conf_schema *schema,
		       const struct conf_node *name, struct conf_mark *seen, void *base)
{
	unsigned i = 0;

	if (name->kind != CONF_NODE_SCALAR) {
		if (name->kind != CONF_NODE_BAD)
			conf_error(conf, name->mark, "a key in %s must be a name, not %s",
				   schema->what, kind_name(name->kind));
		return;
	}
	while (schema->keys[i].name && strcmp(schema->keys[i].name, name->text))
		i++;
	if (!schema->keys[i].name) {
		refuse_key(conf, schema, name);
	} else if (seen[i].line) {
		conf_error(conf, name->mark, "key '%s' is given twice, first on line %u",
			   name->text, seen[i].line);
	} else {
		seen[i] = name->mark;
		apply_key(conf, &schema->keys[i], name->text, name->next, base);
	}
}

static void apply_struct(struct conf *conf, const struct conf_schema *schema,
			 const struct conf_node *node, void *base)
{
	struct conf_mark seen[MAX_KEYS] = {{0}};
	unsigned n_keys = 0;

	while (schema->keys[n_keys].name)
		n_keys++;
	check(n_keys && n_keys <= MAX_KEYS);
	set_mark(schema->mark_offset, base, node->mark);
	if (!schema->keys[0].name[0]) { /* elements are scalars */
		apply_key(conf, &schema->keys[0], schema->what, node, base);
		return;
	}
	if (node->kind == CONF_NODE_BAD)
		return;
	if (node->kind != CONF_NODE_MAPPING && !node->is_null) {
		conf_error(conf, node->mark, "%s must be keys and values, not %s", schema->what,
			   kind_name(node->kind));
		return;
	}
	for (const struct conf_node *name = node->first; name; name = name->next->next)
		apply_pair(conf, schema, name, seen, base);
	apply_missing(conf, schema, node, seen, base);
}

void conf_apply(struct conf *conf, const struct conf_schema *schema, const struct conf_node *root,
		void *into)
{
	apply_struct(conf, schema, root, into);
}

static void release_list(const struct conf_schema *schema, struct conf_list *list)
{
	for (unsigned i = 0; i < list->n; i++) {
		if (schema)
			conf_release(schema, (char *)list->items + i * schema->size);
		else
			free(((char **)list->items)[i]);
	}
	free(list->items);
	*list = (struct conf_list){0};
}

static void release_string(char **field)
{
	free(*field);
	*field = NULL;
}

const char *conf_check_path(const char *value)
{
	return *value == '/' ? NULL : "must be an absolute path, beginning with '/'";
}

const char *conf_check_ascii(const char *value)
{
	for (const char *p = value; *p; p++)
		if (*p < ' ' || *p > '~')
			return "must be printable ASCII";
	return *value == ' ' || value[strlen(value) - 1] == ' '
		       ? "must not begin or end with a blank"
		       : NULL;
}

void conf_release(const struct conf_schema *schema, void *into)
{
	for (const struct conf_key *key = schema->keys; key->name; key++) {
		if (key->type == CONF_STRING)
			release_string(field_of(key, into));
		else if (key->type == CONF_STRUCT)
			conf_release(key->schema, field_of(key, into));
		else if (key->type == CONF_LIST || key->type == CONF_MAP)
			release_list(key->schema, field_of(key, into));
	}
}
