/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares two configurations key by key along the schema; see diff.h.
 *
 * Elements of a list are identified by their first key (a name, an NQN, an nsid), not by their
 * place, so sorting a file changes nothing. Something added or removed is one change, plus one for
 * each thing within it that has a name of its own.
 *
 * A new key of the schema needs a restart to change, until code changes it live and the table here
 * has it.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "target/config/diff.h"
#include "target/config/schema.h"
#include "target/store/backends.h"

enum {
	VALUE_MAX = 64, /* for a number as text */
};

/* The changes that need no restart: apply.c makes them, or control reads the value each time. */
static const struct {
	const char *what, *key; /* "": the thing itself; NULL: every key */
} live[] = {
	{"log", NULL},
	{"configuration", "slow_io"},
	{"limits", "connections_per_host"},
	{"limits", "connections_per_address"},
	{"limits", "discovery"},
	{"limits", "discovery_per_address"},
	{"limits", "discovery_timeout"},
	{"limits", "controllers_per_host"},
	{"limits", "buffers_per_host"},
	{"limits", "bytes_per_host"},
	{"limits", "io_queues_per_host"},
	{"limits", "connect_rate"},
	{"limits", "connect_rate_per_host"},
	{"limits", "pending"},
	{"limits", "pending_per_host"},
	{"limits", "connect_timeout"},
	{"limits", "auth_timeout"},
	{"portal", NULL},
	{"host", NULL},
	{"discovery", NULL},
	{"referral", NULL},
	{"subsystem", ""},
	{"subsystem", "portals"},
	{"subsystem", "allow_hosts"},
	{"subsystem", "allow_any_host"},
	{"ANA group", NULL},
	{"portal of an ANA group", NULL},
	{"namespace", ""},
	{"namespace", "size"},
	{"namespace", "create"},
	{"namespace", "ana_group"},
	{"namespace", "qos"},
};

struct place {
	const char *what; /* of the current struct */
	const char *name;
	bool is_live; /* everything in it, whatever the table has */
};

/* A store with its size in the configuration can change it: backend_ops.resize. */
static bool is_size_of_backend(const char *key)
{
	for (unsigned i = 0; i < N_BACKENDS; i++)
		if (backends[i]->key.type == CONF_SIZE && !strcmp(backends[i]->name, key))
			return true;
	return false;
}

static bool is_live(const struct place *place, const char *key)
{
	if (place->is_live)
		return true;
	for (unsigned i = 0; i < ARRAY_LEN(live); i++)
		if (!strcmp(live[i].what, place->what) &&
		    (!live[i].key || !strcmp(live[i].key, key)))
			return true;
	return !strcmp(place->what, "namespace") && is_size_of_backend(key);
}

/* ---- collecting ----------------------------------------------------------------------------- */

void config_changes_add(struct config_changes *changes, const struct config_change *change)
{
	struct config_change *items = realloc(changes->items, (changes->n + 1) * sizeof(*items));
	struct config_change *item;

	changes->has_failed |= !items;
	if (!items)
		return;
	changes->items = items;
	item = &items[changes->n];
	*item = *change;
	if (asprintf(&item->text, "%s%c%s%c%s", change->name, 0, change->before, 0, change->after) <
	    0) {
		changes->has_failed = true;
		return;
	}
	item->name = item->text;
	item->before = item->name + strlen(item->name) + 1;
	item->after = item->before + strlen(item->before) + 1;
	changes->n++;
}

const struct config_change *config_changes_find_fixed(const struct config_changes *changes)
{
	for (unsigned i = 0; i < changes->n; i++)
		if (!changes->items[i].is_live)
			return &changes->items[i];
	return NULL;
}

void config_changes_free(struct config_changes *changes)
{
	for (unsigned i = 0; i < changes->n; i++)
		free(changes->items[i].text);
	free(changes->items);
	*changes = (struct config_changes){0};
}

/* ---- values --------------------------------------------------------------------------------- */

static const void *field(const struct conf_key *key, const void *object)
{
	return (const char *)object + key->offset;
}

static uint64_t number(const struct conf_key *key, const void *object)
{
	uint64_t value;

	memcpy(&value, field(key, object), sizeof(value));
	return value;
}

static const char *string(const struct conf_key *key, const void *object)
{
	const char *value;

	memcpy(&value, field(key, object), sizeof(value));
	return value ? value : "";
}

static const char *format_number(uint64_t value, char buf[VALUE_MAX])
{
	if (value && value % KIB == 0)
		return units_format_exact(buf, value);
	snprintf(buf, VALUE_MAX, "%" PRIu64, value);
	return buf;
}

/* The value as in the file; "" if the file does not have it. */
static const char *format_value(const struct conf_key *key, const void *object, char buf[VALUE_MAX])
{
	bool flag;
	unsigned choice;

	static_assert(VALUE_MAX >= UNITS_MAX, "units write into it");
	switch (key->type) {
	case CONF_BOOL:
		memcpy(&flag, field(key, object), sizeof(flag));
		return flag ? "true" : "false";
	case CONF_ENUM:
		memcpy(&choice, field(key, object), sizeof(choice));
		return key->names[choice];
	case CONF_STRING:
		return string(key, object);
	case CONF_UINT:
		if (!number(key, object) && !key->default_value)
			return "";
		snprintf(buf, VALUE_MAX, "%" PRIu64, number(key, object));
		return buf;
	case CONF_SIZE:
		return number(key, object) ? units_format_exact(buf, number(key, object)) : "";
	case CONF_DURATION:
		return units_format_duration(buf, number(key, object));
	case CONF_CUSTOM: /* all of these are numbers, most with a word for 0 */
		if (key->format)
			return key->format(buf, number(key, object));
		return number(key, object) || !key->default_value
			       ? format_number(number(key, object), buf)
			       : key->default_value;
	case CONF_STRUCT:
	case CONF_LIST:
	case CONF_MAP:
		break;
	}
	return "";
}

static bool is_same_value(const struct conf_key *key, const void *a, const void *b)
{
	char x[VALUE_MAX], y[VALUE_MAX];

	switch (key->type) {
	case CONF_UINT:
	case CONF_SIZE:
	case CONF_DURATION:
	case CONF_CUSTOM:
		return number(key, a) == number(key, b);
	default:
		return !strcmp(format_value(key, a, x), format_value(key, b, y));
	}
}

/* "file: /srv/a, size: 1GiB": all but the name that differs from the default. */
static void write_summary(FILE *f, const struct conf_schema *schema, const void *object)
{
	const char *separator = "";

	for (const struct conf_key *key = schema->keys + 1; key->name; key++) {
		char buf[VALUE_MAX];
		const char *value = format_value(key, object, buf);

		if (!*value || (key->default_value && !strcmp(value, key->default_value)) ||
		    (key->type == CONF_BOOL && !strcmp(value, "false")))
			continue;
		fprintf(f, "%s%s: %s", separator, key->name, value);
		separator = ", ";
	}
}

static char *summarize(struct config_changes *changes, const struct conf_schema *schema,
		       const void *object)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	if (f) {
		write_summary(f, schema, object);
		fclose(f);
	}
	changes->has_failed |= !text;
	return text;
}

/* ---- walking -------------------------------------------------------------------------------- */

static void diff_struct(struct config_changes *changes, const struct place *place,
			const struct conf_schema *schema, const void *before, const void *after);

static const void *element(const struct conf_list *list, const struct conf_schema *schema,
			   unsigned i)
{
	return (const char *)list->items + (size_t)i * schema->size;
}

static const void *find(const struct conf_list *list, const struct conf_schema *schema,
			const void *wanted)
{
	for (unsigned i = 0; i < list->n; i++)
		if (is_same_value(&schema->keys[0], element(list, schema, i), wanted))
			return element(list, schema, i);
	return NULL;
}

static bool is_name(const struct conf_schema *schema)
{
	return !*schema->keys[0].name;
}

/* A name in a list of names: its value is the name itself. */
static void add_name(struct config_changes *changes, const struct place *place,
		     const struct conf_key *list, const void *object, bool is_added)
{
	char buf[VALUE_MAX];
	const char *name = format_value(&list->schema->keys[0], object, buf);

	config_changes_add(changes,
			   &(struct config_change){.kind = is_added ? CHANGE_ADD : CHANGE_REMOVE,
						   .what = list->name,
						   .name = place->name,
						   .key = "",
						   .before = is_added ? "" : name,
						   .after = is_added ? name : "",
						   .is_live = is_live(place, list->name)});
}

/* Added or removed as a whole; then what its lists have. */
static void add_object(struct config_changes *changes, const struct place *place,
		       const struct conf_schema *schema, const void *object, bool is_added)
{
	_autofree_ char *summary = summarize(changes, schema, object);
	_autofree_ void *nothing = calloc(1, schema->size);
	const char *text = summary ? summary : "";

	config_changes_add(changes,
			   &(struct config_change){.kind = is_added ? CHANGE_ADD : CHANGE_REMOVE,
						   .what = place->what,
						   .name = place->name,
						   .key = "",
						   .before = is_added ? "" : text,
						   .after = is_added ? text : "",
						   .is_live = is_live(place, "")});
	for (const struct conf_key *key = schema->keys; nothing && key->name; key++) {
		struct conf_schema lists = *schema;
		const struct conf_key only[] = {*key, {0}};

		if (key->type != CONF_LIST)
			continue;
		lists.keys = only;
		diff_struct(changes, place, &lists, is_added ? nothing : object,
			    is_added ? object : nothing);
	}
}

static void diff_element(struct config_changes *changes, const struct place *parent,
			 const struct conf_schema *schema, const void *before, const void *after)
{
	char id_buf[VALUE_MAX];
	const char *id = format_value(&schema->keys[0], before ? before : after, id_buf);
	_autofree_ char *name = NULL;
	struct place place = {.what = schema->what};

	if (asprintf(&name, "%s%s%s", parent->name, *parent->name ? "/" : "", id) < 0) {
		changes->has_failed = true;
		return;
	}
	place.name = name;
	if (before && after)
		diff_struct(changes, &place, schema, before, after);
	else
		add_object(changes, &place, schema, before ? before : after, after);
}

static void diff_list(struct config_changes *changes, const struct place *place,
		      const struct conf_key *key, const void *before, const void *after)
{
	const struct conf_schema *schema = key->schema;
	const struct conf_list *old = field(key, before), *new = field(key, after);

	for (unsigned i = 0; i < old->n; i++) {
		const void *one = element(old, schema, i);

		if (find(new, schema, one))
			continue;
		if (is_name(schema))
			add_name(changes, place, key, one, false);
		else
			diff_element(changes, place, schema, one, NULL);
	}
	for (unsigned i = 0; i < new->n; i++) {
		const void *one = element(new, schema, i);
		const void *other = find(old, schema, one);

		if (!is_name(schema))
			diff_element(changes, place, schema, other, one);
		else if (!other)
			add_name(changes, place, key, one, true);
	}
}

/* Live changes neither take away memory in use nor truncate a file. */
static bool shrinks(const struct place *place, const struct conf_key *key, const void *before,
		    const void *after)
{
	return !strcmp(place->what, "namespace") && key->type == CONF_SIZE && number(key, after) &&
	       number(key, after) < number(key, before);
}

static void diff_value(struct config_changes *changes, const struct place *place,
		       const struct conf_key *key, const void *before, const void *after)
{
	char x[VALUE_MAX], y[VALUE_MAX];

	if (is_same_value(key, before, after))
		return;
	config_changes_add(changes,
			   &(struct config_change){.kind = CHANGE_VALUE,
						   .what = place->what,
						   .name = place->name,
						   .key = key->name,
						   .before = format_value(key, before, x),
						   .after = format_value(key, after, y),
						   .is_live = is_live(place, key->name) &&
							      !shrinks(place, key, before, after)});
}

static void diff_struct(struct config_changes *changes, const struct place *place,
			const struct conf_schema *schema, const void *before, const void *after)
{
	for (const struct conf_key *key = schema->keys; key->name; key++) {
		if (key->type == CONF_STRUCT) {
			struct place inner = {.what = key->schema->what,
					      .name = place->name,
					      .is_live = is_live(place, key->name)};

			diff_struct(changes, &inner, key->schema, field(key, before),
				    field(key, after));
		} else if (key->type == CONF_LIST || key->type == CONF_MAP) {
			diff_list(changes, place, key, before, after);
		} else {
			diff_value(changes, place, key, before, after);
		}
	}
}

int config_diff(const struct target_config *before, const struct target_config *after,
		struct config_changes *ret_changes)
{
	const struct place whole = {.what = config_schema.what, .name = ""};

	*ret_changes = (struct config_changes){0};
	diff_struct(ret_changes, &whole, &config_schema, before, after);
	return ret_changes->has_failed ? -ENOMEM : 0;
}
