/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options that attach and serve have in common: their table, and how they become the
 * configuration of a volume process. Thread: main.
 */
#pragma once

#include <limits.h>

#include "base/args.h"
#include "initiator/control/volume.h"
#include "nbd_bridge/control/bridge.h"
#include "tools/rblk/target_name.h"

enum {
	VOLUME_OPTIONS_MAX = 48, /* room in a table, for those of the subcommand too */
};

struct volume_options {
	/* As given: texts of the rows of volume_option_table, in their order, and NULL. */
	const char *given[VOLUME_OPTIONS];
	struct arg_list paths; /* of --path, which is not in given */
	uint64_t checked;      /* args_parse puts there what it has checked */
	uint64_t max_connections, n_kernel_connections;
	const char *name, *fabric, *metrics;
	const char *socket_path, *socket_mode, *socket_owner, *socket_group, *listen;
	unsigned frontend;
	bool is_read_only, is_verbose;

	char default_name[VOLUME_NAME_MAX];
	char socket[PATH_MAX];
};

/* Sets the defaults. */
void volume_options_init(struct volume_options *options, enum bridge_frontend frontend);
/* Appends rows to a table of VOLUME_OPTIONS_MAX; returns how many there are then. */
unsigned volume_options_table(struct volume_options *options, struct arg *table, unsigned n);
/* The text of an option of volume_option_table, borrowed; NULL: not given. */
const char *volume_options_given(const struct volume_options *options, const char *name);
/*
 * After parsing: options and "NQN@ADDRESS" become a configuration, names that were not given get
 * their defaults, the host's identity is loaded. *config borrows from *options. 0, or an exit code
 * with *error filled.
 */
int volume_options_apply(struct volume_options *options, const char *target,
			 struct bridge_config *config, struct error *error);
