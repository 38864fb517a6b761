/* SPDX-License-Identifier: BSD-3-Clause */
/* The difference between two configurations: for rblkctl diff, and for apply. Pure; any thread. */
#pragma once

#include <stdbool.h>

#include "target/config/config.h"

enum config_change_kind {
	CHANGE_ADD,
	CHANGE_REMOVE,
	CHANGE_VALUE,
};

struct config_change {
	enum config_change_kind kind;
	const char *what;   /* "namespace", "log"; of a name in a list: "allow_hosts" */
	const char *name;   /* "nqn.x:db/1"; "" where there is only one */
	const char *key;    /* of a value; otherwise "" */
	const char *before; /* the value, or a summary of what is removed; may be "" */
	const char *after;  /* the same of what is added */
	bool is_live;	    /* otherwise a restart is needed */
	char *text;	    /* owned: has name, before and after */
};

/* In the order of the schema and the new file. */
struct config_changes {
	struct config_change *items; /* owned */
	unsigned n;
	bool has_failed; /* out of memory: it is not complete */
};

/* 0 or -ENOMEM. The caller calls config_changes_free in any case. */
int config_diff(const struct target_config *before, const struct target_config *after,
		struct config_changes *ret_changes);
/* Adds a change that was found elsewhere. name, before and after are copied. */
void config_changes_add(struct config_changes *changes, const struct config_change *change);
/* The first change that needs a restart, or NULL. */
const struct config_change *config_changes_find_fixed(const struct config_changes *changes);
void config_changes_free(struct config_changes *changes);
