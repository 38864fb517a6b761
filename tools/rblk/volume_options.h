/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options that attach and serve have in common: their table, and how they become the
 * configuration of a volume process. Thread: main.
 */
#pragma once

#include <limits.h>

#include "base/args.h"
#include "base/check.h"
#include "initiator/control/volume.h"
#include "nbd_bridge/control/bridge.h"
#include "tools/rblk/target_name.h"

enum {
	VOLUME_OPTIONS_MAX = 48, /* room in a table, for those of the subcommand too */
};

struct volume_options {
	/* As given. */
	uint64_t nsid, n_queues, queue_size, buffer_bytes, keep_alive_ns, reconnect_delay_ns,
		io_timeout_ns;
	uint64_t max_connections, n_kernel_connections;
	const char *ctrl_loss_tmo, *fast_io_fail_tmo; /* a duration or "never" */
	const char *name, *hostnqn, *hostid, *host_address, *fabric;
	const char *socket_path, *socket_mode, *socket_owner, *socket_group, *listen, *metrics;
	const char *secret_file, *ctrl_secret_file, *spin;
	struct arg_list paths;
	unsigned frontend, fence, policy;
	bool is_read_only, is_verbose, has_windows, fails_on_denial, finds_paths;

	char default_name[VOLUME_NAME_MAX];
	char socket[PATH_MAX];
};

/* Sets the defaults. */
void volume_options_init(struct volume_options *options, enum bridge_frontend frontend);
/* Adds one row to a table of VOLUME_OPTIONS_MAX, which stays terminated; returns n + 1. */
static inline unsigned volume_options_add(struct arg *table, unsigned n, struct arg arg)
{
	check(n + 1 < VOLUME_OPTIONS_MAX);
	table[n] = arg;
	table[n + 1] = (struct arg){0};
	return n + 1;
}
/* Appends rows to a table of VOLUME_OPTIONS_MAX; returns how many there are then. */
unsigned volume_options_table(struct volume_options *options, struct arg *table, unsigned n);
/*
 * After parsing: options and "NQN@ADDRESS" become a configuration, names that were not given get
 * their defaults, the host's identity is loaded. *config borrows from *options. 0, or an exit code
 * with *error filled.
 */
int volume_options_apply(struct volume_options *options, const char *target,
			 struct bridge_config *config, struct error *error);
/* After volume_options_apply, when there is to be an NBD socket: sets its path, which *config
 * borrows. 0, or an exit code with *error: no socket can be made there. */
int volume_options_socket(struct volume_options *options, struct bridge_config *config,
			  struct error *error);
