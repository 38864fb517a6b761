/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a tree of configuration nodes into plain structs, as a table of keys describes them; see
 * conf.h.
 */
#pragma once

struct conf;
struct conf_key;
struct conf_node;
struct conf_schema;
struct error;

/* Frees everything that conf_read put into *into. */
void conf_release(const struct conf_schema *schema, void *into);
/* Parses one scalar, as in a file, into its field of object. 0; or -EINVAL with *error, whose
 * message "must be ..." goes behind the name of the key. */
int conf_parse_value(const struct conf_key *key, const char *text, void *object,
		     struct error *error);
/* For conf_key.check: an absolute path; printable ASCII without a blank at either end. */
const char *conf_check_path(const char *value);
const char *conf_check_ascii(const char *value);

/* Reads the tree into *into, which is zeroed. Reports mistakes by conf_error. */
void conf_apply(struct conf *conf, const struct conf_schema *schema, const struct conf_node *root,
		void *into);
