/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tree of a configuration file, internal to base/conf*. conf_file.c loads the text, conf_read.c
 * builds the tree from its YAML, conf_schema.c reads the tree into structs, conf_report.c prints
 * the mistakes that they find. The struct conf owns all nodes.
 */
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
	CONF_NODE_BAD, /* already reported: accepted everywhere without another message */
};

struct conf_node {
	enum conf_node_kind kind;
	bool is_null; /* an unquoted scalar: empty, ~ or null */
	struct conf_mark mark;
	struct conf_node *next;	     /* sibling; in a mapping keys and values alternate */
	struct conf_node *first;     /* child */
	struct conf_node *allocated; /* next in the list by which all nodes are freed */
	char text[];		     /* of a scalar, terminated */
};

struct conf {
	char *name; /* owned */
	char *text; /* owned */
	size_t n;
	FILE *out;		   /* borrowed: outlives conf */
	unsigned n_errors, n_busy; /* n_busy: those with EXIT_BUSY */
	struct conf_node *nodes;   /* owned: all of them, while reading */
};
