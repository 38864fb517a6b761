/* SPDX-License-Identifier: BSD-3-Clause */
/* Between conf_file.c, which has the text, conf.c, which builds a tree of its YAML, and conf_schema.c,
 * which reads that. */
#pragma once

#include "base/conf.h"

enum {
	CONF_MAX_TEXT = 1024 * 1024,
	CONF_MAX_DEPTH = 32,
	CONF_MAX_ERRORS = 50,
};

enum conf_node_kind {
	CONF_NODE_SCALAR,
	CONF_NODE_SEQUENCE,
	CONF_NODE_MAPPING,
	CONF_NODE_BAD, /* was complained about already: accepted in silence everywhere */
};

struct conf_node {
	enum conf_node_kind kind;
	bool is_null; /* a scalar without quotes: nothing, ~ or null */
	struct conf_mark mark;
	struct conf_node *next;	     /* sibling; in a mapping keys and values take turns */
	struct conf_node *first;     /* child */
	struct conf_node *allocated; /* the chain by which all nodes are freed */
	char text[];		     /* of a scalar, terminated */
};

/* Reads the tree into *into, which is zeroed. Mistakes go to conf_error. */
void conf_apply(struct conf *conf, const struct conf_schema *schema, const struct conf_node *root,
		void *into);

/* As conf_read_text, but takes text over; NULL: there is none to read, *into is zeroed. */
int conf_read_owned(const char *name, char *text, size_t n, const struct conf_schema *schema,
		    void *into, FILE *out, struct conf **ret_conf);
