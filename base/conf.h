/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Configuration files: YAML (parsed by libyaml), read into a plain struct by a table, the schema.
 * Control thread or main. One run reports every mistake of a file, each as
 *
 *   target.yaml:23:7: error: unknown key 'nsidd' in namespace (did you mean 'nsid'?)
 *         - {nsidd: 2, device: /dev/vg0/log}
 *            ^~~~~
 *
 * A schema is an array of struct conf_key that ends with a NULL name. Scalars are parsed and range
 * checked, sequences become arrays, mappings become nested structs. Each parsed element keeps its
 * mark (line and column), so that checks across keys (duplicates, references) point at a line.
 *
 * The schema alone decides the type of a value. Quotes never matter, except that unquoted empty
 * text, ~ and null are no value. Anchors, aliases and tags are refused. JSON is YAML, so a JSON
 * file works, too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/units.h"

/* A place in the file. Lines and columns count from 1; line 0: a default, not in the file. */
struct conf_mark {
	unsigned line, column;
	unsigned length; /* of the scalar, for the caret line */
};

enum conf_type {
	CONF_BOOL,     /* bool; YAML 1.2: true, false only */
	CONF_UINT,     /* uint64_t within min..max */
	CONF_SIZE,     /* uint64_t bytes within min..max, "64MiB" */
	CONF_DURATION, /* uint64_t ns within min..max, "500ms" */
	CONF_STRING,   /* char *, owned */
	CONF_ENUM,     /* unsigned, index into names[] */
	CONF_STRUCT,   /* nested mapping, in place */
	CONF_LIST,     /* struct conf_list of structs, or of char * without a schema */
	CONF_MAP,      /* mapping with free keys, as a struct conf_list; of the two keys of
		      * the schema, the first takes each key, the second each value */
	CONF_CUSTOM,   /* parse(value, field) */
};

/* A parsed sequence: items is owned, n elements of the schema's element size each. */
struct conf_list {
	void *items;
	unsigned n;
};

struct conf_key {
	const char *name;
	enum conf_type type;
	size_t offset;	    /* of the field in the struct */
	size_t mark_offset; /* of the struct conf_mark for it; 0: no mark is kept */
	bool is_required;
	uint64_t min, max;	   /* numbers; for strings and lists: lengths (max 0: none) */
	const char *default_value; /* as written in a file; NULL: zero */
	const char *const *names;  /* CONF_ENUM, NULL-terminated */
	const struct conf_schema *schema; /* of the nested elements; NULL: a list of strings */
	/* Further check of a string. NULL: valid; else the reason, static: "must be x". */
	const char *(*check)(const char *value);
	/* CONF_CUSTOM: fills the field, which owns no memory. Returns as check does. */
	const char *(*parse)(const char *value, void *field);
	/* CONF_CUSTOM: the text of a number, in buf or static. NULL: default_value for 0. */
	const char *(*format)(char buf[UNITS_MAX], uint64_t number);
	const char *help; /* one line, for the manual page */
};

/*
 * At most 64 keys. If the first key has the name "", each element is one scalar instead of a
 * mapping, and that key receives it: a list of sizes, or of names with a mark each.
 */
struct conf_schema {
	const char *what;   /* "namespace", in messages */
	size_t size;	    /* of the struct */
	size_t mark_offset; /* where the struct's own mark goes; 0: none */
	const struct conf_key *keys;
};

struct conf; /* one reading of a file: its text, for the caret lines, and its errors */
