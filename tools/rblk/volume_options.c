/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the command line to a configuration of the volume process; see volume_options.h. The options
 * of the volume itself come from the table of volume_config.c, and so do their defaults.
 *
 * All that can be wrong with a command line is found here, before a process or a connection exists:
 * a wrong option costs the user a message at once, not a timeout.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/http.h"
#include "base/units.h"
#include "initiator/control/auth_keys.h"
#include "initiator/control/host_identity.h"
#include "tools/rblk/report.h"
#include "tools/rblk/run_dir.h"
#include "tools/rblk/socket_options.h"
#include "tools/rblk/volume_options.h"

static const char *const frontend_names[] = {"auto", "nbd", "socket", NULL};

/* attach and serve differ in one default: serve needs no privilege, so it takes the socket. */
void volume_options_init(struct volume_options *options, enum bridge_frontend frontend)
{
	*options = (struct volume_options){
		.max_connections = 16,
		.n_kernel_connections = 1,
		.socket_mode = "0600",
		.frontend = frontend,
	};
}

/* args_parse checks what it can, and keeps the text; volume_option_parse sets it. */
static struct arg volume_arg(struct volume_options *o, unsigned i)
{
	static const enum arg_type types[] = {
		[VOLUME_OPTION_NUMBER] = ARG_UINT,    [VOLUME_OPTION_FLAG] = ARG_FLAG,
		[VOLUME_OPTION_CHOICE] = ARG_CHOICE,  [VOLUME_OPTION_TIME] = ARG_DURATION,
		[VOLUME_OPTION_TIMEOUT] = ARG_STRING, [VOLUME_OPTION_SPIN] = ARG_STRING,
		[VOLUME_OPTION_BUFFERS] = ARG_SIZE,   [VOLUME_OPTION_FILE] = ARG_STRING,
		[VOLUME_OPTION_ADDRESS] = ARG_STRING, [VOLUME_OPTION_PATHS] = ARG_LIST,
		[VOLUME_OPTION_HOSTNQN] = ARG_STRING, [VOLUME_OPTION_HOSTID] = ARG_STRING,
	};
	const struct volume_option *option = &volume_option_table[i];
	bool is_list = option->kind == VOLUME_OPTION_PATHS;

	return (struct arg){
		.name = option->name,
		.letter = option->letter,
		.type = types[option->kind],
		.value = is_list ? (void *)&o->paths : &o->checked,
		.text = is_list ? NULL : &o->given[i],
		.placeholder = option->value,
		.standard = option->standard,
		.help = option->help,
		.min = option->min,
		.max = is_list ? VOLUME_PATHS_MAX - 1 : option->max,
		.choices = option->choices,
	};
}

/* The order is that of --help: the namespace, the process and its clients, the volume. */
unsigned volume_options_table(struct volume_options *o, struct arg *t, unsigned n)
{
	const struct arg process[] = {
		{"name", 0, ARG_STRING, &o->name, "NAME",
		 "name of the volume on this machine (default: from the NQN)"},
		{"read-only", 'r', ARG_FLAG, &o->is_read_only, NULL, "refuse writes"},
		{"frontend", 0, ARG_CHOICE, &o->frontend, NULL,
		 "nbd: /dev/nbdN; socket: only the NBD socket; auto: nbd if available",
		 .choices = frontend_names},
		{"socket", 0, ARG_STRING, &o->socket_path, "PATH",
		 "NBD socket (default: in the run directory)"},
		{"socket-mode", 0, ARG_STRING, &o->socket_mode, "MODE",
		 "permissions of the NBD socket (default: 0600)"},
		{"socket-owner", 0, ARG_STRING, &o->socket_owner, "USER",
		 "owner of the NBD socket (default: this user)"},
		{"socket-group", 0, ARG_STRING, &o->socket_group, "GROUP",
		 "group of the NBD socket (default: this user's)"},
		{"listen", 0, ARG_STRING, &o->listen, "ADDRESS",
		 "says how nbdkit serves the volume over TCP"},
		{"metrics", 0, ARG_STRING, &o->metrics, "ADDRESS[:PORT]",
		 "metrics for Prometheus by HTTP, without access control (port 9808)"},
		{"max-connections", 0, ARG_UINT, &o->max_connections, "N",
		 "NBD clients at a time (default: 16)", 1, 1024},
		{"device-connections", 0, ARG_UINT, &o->n_kernel_connections, "N",
		 "queues of the block device (default: 1)", 1, 16},
		{"fabric", 0, ARG_STRING, &o->fabric, "auto|soft|soft-roce|DEVICE",
		 "RDMA device, or the software provider (default: auto)"},
		{"verbose", 'v', ARG_FLAG, &o->is_verbose, NULL,
		 "log connections and state changes"},
	};

	check(n + ARRAY_LEN(process) + VOLUME_OPTIONS < VOLUME_OPTIONS_MAX);
	t[n++] = volume_arg(o, 0);
	memcpy(&t[n], process, sizeof(process));
	n += ARRAY_LEN(process);
	for (unsigned i = 1; i < VOLUME_OPTIONS; i++)
		t[n++] = volume_arg(o, i);
	t[n] = (struct arg){0};
	return n;
}

const char *volume_options_given(const struct volume_options *o, const char *name)
{
	const struct volume_option *option = volume_option_find(name);

	check(option);
	return o->given[option - volume_option_table];
}

/* ---- applying ------------------------------------------------------------------------------ */

/* 0, or an exit code with *error filled; so are all apply_ functions. */
static int refuse(const struct volume_option *option, const char *text, int r,
		  const struct volume_config *config, struct error *error)
{
	static const char *const wrongs[] = {
		[VOLUME_OPTION_TIMEOUT] = "neither a time like 30s nor 'never'",
		[VOLUME_OPTION_SPIN] = "not auto, always, never or a time up to 1s",
		[VOLUME_OPTION_FILE] = "not a path",
		[VOLUME_OPTION_ADDRESS] = "not an address",
		[VOLUME_OPTION_PATHS] = "not an address",
	};
	const char *hint = NULL;

	if (option->kind == VOLUME_OPTION_BUFFERS) {
		error_set(error, EXIT_USAGE, "take fewer --queues, or more",
			  "--buffers: a queue needs %u KiB, so %u of them %u KiB",
			  (unsigned)(VOLUME_SLAB_MIN / KIB), config->n_queues,
			  (unsigned)(config->n_queues * (VOLUME_SLAB_MIN / KIB)));
		return EXIT_USAGE;
	}
	if (option->kind == VOLUME_OPTION_PATHS)
		hint = r == -EEXIST
			       ? "each portal is one path"
			       : "write it like 192.0.2.1:4420, [2001:db8::1]:4420 or fe80::1%eth0";
	error_set(error, EXIT_USAGE, hint, "--%s: '%.100s' is %s", option->name, text,
		  r == -EEXIST ? "given twice" : wrongs[option->kind]);
	return EXIT_USAGE;
}

static int apply_option(const struct volume_option *option, const char *text,
			struct volume_config *config, struct error *error)
{
	int r = volume_option_parse(option, text, config);

	return r < 0 ? refuse(option, text, r, config, error) : 0;
}

/* Checks what host_identity_load does not read itself. The other mistakes in paths, as a portal of
 * another subsystem, are found when they are connected. */
static int apply_given(const struct volume_options *o, struct volume_config *config,
		       struct error *error)
{
	int r = 0;

	for (unsigned i = 0; i < VOLUME_OPTIONS && !r; i++) {
		const struct volume_option *option = &volume_option_table[i];

		if (option->kind == VOLUME_OPTION_HOSTNQN || option->kind == VOLUME_OPTION_HOSTID)
			continue;
		if (o->given[i])
			r = apply_option(option, o->given[i], config, error);
		for (unsigned k = 0; option->kind == VOLUME_OPTION_PATHS && k < o->paths.n && !r;
		     k++)
			r = apply_option(option, o->paths.items[k], config, error);
	}
	return r;
}

/* Each connection reads the files again; here an error in them is reported at once. */
static int check_secrets(const struct volume_config *config, struct error *error)
{
	struct auth_keys *keys = auth_alloc(sizeof(*keys));
	int r = keys ? auth_keys_load(config, keys, error) : 0;

	auth_free(keys, sizeof(*keys));
	return r < 0 ? (int)error->code : 0;
}

/* NVMe Base 2.0, 8.13.5: the controller proves itself inside the host's own exchange. */
static int apply_connection(const struct volume_options *o, struct volume_config *config,
			    struct error *error)
{
	int r = apply_given(o, config, error);

	if (r)
		return r;
	if (*config->ctrl_secret_file && !*config->secret_file) {
		error_set(
			error, EXIT_USAGE, NULL,
			"--dhchap-ctrl-secret-file needs --dhchap-secret-file: the host proves itself first");
		return EXIT_USAGE;
	}
	r = check_secrets(config, error);
	if (r)
		return r;
	return host_identity_load("/etc/nvme", volume_options_given(o, "hostnqn"),
				  volume_options_given(o, "hostid"), config, error) < 0
		       ? (int)error->code
		       : 0;
}

/* As metrics.listen of rblkd: numeric, and nothing listens without it. */
static int apply_metrics(const struct volume_options *o, struct bridge_config *config,
			 struct error *error)
{
	if (!o->metrics)
		return 0;
	if (addr_parse_numeric(o->metrics, BRIDGE_METRICS_PORT, &config->metrics_address) < 0) {
		error_set(error, EXIT_USAGE, "write it like 127.0.0.1:9808 or [::1]:9808",
			  "--metrics: '%.100s' is not a numeric address", o->metrics);
		return EXIT_USAGE;
	}
	if (!http_is_built()) {
		error_set(error, EXIT_FAILED, "`rblk metrics` prints them without a port",
			  "--metrics: rblk was built without libmicrohttpd");
		return EXIT_FAILED;
	}
	config->metrics = o->metrics;
	return addr_check_ip("--metrics", error) < 0 ? (int)error->code : 0;
}

/* Longer than we hold I/O and wait for the target's answer (queue.c, OVERDUE): a request that the
 * kernel repeats could overtake its first copy. */
static uint64_t kernel_timeout_s(const struct volume_config *config)
{
	uint64_t answer_s = 10 * config->io_timeout_ns / NSEC_PER_SEC;

	if (config->ctrl_loss_tmo_ns == UINT64_MAX)
		return 7 * 24 * 3600;
	return config->ctrl_loss_tmo_ns / NSEC_PER_SEC + answer_s + 60;
}

/* The name comes last, because its default is made of the NQN and the NSID. The kernel's timeout
 * depends on two other options, so no option sets it. */
int volume_options_apply(struct volume_options *o, const char *target, struct bridge_config *config,
			 struct error *error)
{
	int r;

	volume_config_init(&config->volume);
	r = target_name_parse(target, &config->volume, error);
	if (r == 0)
		r = apply_connection(o, &config->volume, error);
	if (r == 0)
		r = socket_options_apply(o, config, error);
	if (r == 0)
		r = apply_metrics(o, config, error);
	if (r)
		return r;
	volume_name_default(&config->volume, o->default_name);
	config->name = o->name ?: o->default_name;
	if (!volume_name_is_valid(config->name)) {
		error_set(error, EXIT_USAGE, "use up to 63 letters, digits, '.', '_' and '-'",
			  "'%.100s' cannot be the name of a volume", config->name);
		return EXIT_USAGE;
	}
	config->frontend = (enum bridge_frontend)o->frontend;
	config->is_read_only = o->is_read_only;
	config->max_connections = (unsigned)o->max_connections;
	config->has_fixed_queues = volume_options_given(o, "queues");
	config->kernel.n_connections = (unsigned)o->n_kernel_connections;
	config->kernel.io_timeout_s = kernel_timeout_s(&config->volume);
	return 0;
}
