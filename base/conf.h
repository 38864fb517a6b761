/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Configuration files: YAML (through libyaml) read against a table, the schema, into a
 * plain struct. Every mistake of a file is reported in one run, each as
 *
 *   target.yaml:23:7: error: unknown key 'nsidd' in namespace (did you mean 'nsid'?)
 *         - {nsidd: 2, device: /dev/vg0/log}
 *            ^~~~~
 *
 * A schema is an array of struct conf_key ended by a NULL name. Scalars are parsed and
 * range checked, sequences become arrays, mappings nested structs. Marks (file, line,
 * column) are kept with each parsed element, so that checks across keys (duplicates,
 * references) point at lines.
 *
 * The schema alone decides what a value is: quotes never matter, but an unquoted nothing,
 * ~ or null is no value. Anchors, aliases and tags are refused. JSON is YAML, and so is
 * read as well.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Where something stands in the file; line 0 when it was defaulted. Lines and columns
 * from 1. */
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
	size_t mark_offset; /* of a struct conf_mark in the struct; 0: none is kept */
	bool is_required;
	uint64_t min, max;	   /* numbers; for strings and lists: lengths (max 0: none) */
	const char *default_value; /* as it would be written in the file; NULL: zero */
	const char *const *names;  /* CONF_ENUM, NULL-terminated */
	const struct conf_schema *schema; /* of what is nested; NULL: a list of strings */
	/* Further check of a string: NULL if fine, else the reason, static: "must be x".
	 */
	const char *(*check)(const char *value);
	/* CONF_CUSTOM: fills the field, which must own nothing. Returns as check does. */
	const char *(*parse)(const char *value, void *field);
	const char *help; /* one line, for the manual page */
};

/*
 * At most 64 keys. If the first key has the name "", an element is no mapping but one
 * scalar, which that key takes: a list of sizes, or of names that need a mark each.
 */
struct conf_schema {
	const char *what;   /* "namespace": for messages */
	size_t size;	    /* of the struct */
	size_t mark_offset; /* where the struct's own mark goes; 0: none */
	const struct conf_key *keys;
};

struct conf; /* one read: the text, for carets, and the messages */

/* Reads path ("-": standard input) into *into, which is zeroed first. Errors go to out as
 * they are found, at most 50. Returns a handle in any case, to be freed by conf_free;
 * conf_n_errors tells whether *into may be used. -errno only if the file cannot be read
 * (said on out). out is borrowed until conf_free; *into needs conf_release even after
 * errors. */
int conf_read(const char *path, const struct conf_schema *schema, void *into, FILE *out,
	      struct conf **ret_conf);
/* The same on a text in memory; name is what messages call it. */
int conf_read_text(const char *name, const char *text, size_t n, const struct conf_schema *schema,
		   void *into, FILE *out, struct conf **ret_conf);
unsigned conf_n_errors(const struct conf *conf);
/* A mistake that the schema cannot see: duplicate NSID, unknown portal, no such file. */
__attribute__((format(printf, 3, 4))) void conf_error(struct conf *conf, struct conf_mark mark,
						      const char *fmt, ...);
/* The error that was just told is of something that is in use: the file may be right all the same. */
void conf_note_busy(struct conf *conf);
/* Whether there are errors, and all of them are such. */
bool conf_is_busy(const struct conf *conf);
void conf_free(struct conf *conf);
/* Frees everything conf_read put into *into. */
void conf_release(const struct conf_schema *schema, void *into);
/* One scalar by itself, as it would stand in a file, into its field of object. False: why is "must be ...". */
bool conf_parse_value(const struct conf_key *key, const char *text, void *object, char *why,
		      size_t n_why);
/* For conf_key.check: an absolute path. */
const char *conf_check_path(const char *value);
/* The name closest to s among names (NULL-terminated), or NULL if none is close. */
const char *conf_did_you_mean(const char *s, const char *const *names);
