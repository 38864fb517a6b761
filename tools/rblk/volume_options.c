/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the command line to a configuration of the volume process; see volume_options.h. The
 * defaults of what concerns NVMe come from volume_config_init, so that they stand in one place.
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
#include "tools/rblk/spin_option.h"
#include "tools/rblk/volume_options.h"

static const char *const fence_names[] = {"require", "off", NULL}; /* enum volume_fence */
/* enum volume_policy */
static const char *const policy_names[] = {"latency", "queue-depth", "round-robin", NULL};
static const char *const frontend_names[] = {"auto", "nbd", "socket", NULL};

/* attach and serve differ in one default: serve needs no privilege, so it takes the socket. */
void volume_options_init(struct volume_options *options, enum bridge_frontend frontend)
{
	struct volume_config config;

	volume_config_init(&config);
	*options = (struct volume_options){
		.nsid = config.nsid,
		.queue_size = config.queue_size,
		.keep_alive_ns = config.keep_alive_ns,
		.io_timeout_ns = config.io_timeout_ns,
		.reconnect_delay_ns = config.reconnect_delay_ns,
		.max_connections = 16,
		.n_kernel_connections = 1,
		.socket_mode = "0600",
		.spin = "auto",
		.frontend = frontend,
	};
}

/* What concerns the connection to the target. The order is that of --help. */
static unsigned add_connection_options(struct volume_options *o, struct arg *t, unsigned n)
{
	n = volume_options_add(t, n,
			       (struct arg){"path", 0, ARG_LIST, &o->paths, "ADDRESS[:PORT]",
					    "another portal of the target; may be repeated", 0,
					    VOLUME_PATHS_MAX - 1});
	n = volume_options_add(t, n,
			       (struct arg){"find-paths", 0, ARG_FLAG, &o->finds_paths, NULL,
					    "all portals that the target's discovery names"});
	n = volume_options_add(t, n,
			       (struct arg){"policy", 0, ARG_CHOICE, &o->policy,
					    "latency|queue-depth|round-robin",
					    "which of equal paths takes an I/O (default: latency)",
					    0, 0, policy_names});
	n = volume_options_add(t, n,
			       (struct arg){"hostnqn", 0, ARG_STRING, &o->hostnqn, "NQN",
					    "this host's NQN (default: /etc/nvme/hostnqn)"});
	n = volume_options_add(t, n,
			       (struct arg){"hostid", 0, ARG_STRING, &o->hostid, "UUID",
					    "this host's id (default: /etc/nvme/hostid)"});
	n = volume_options_add(t, n,
			       (struct arg){"host-address", 0, ARG_STRING, &o->host_address,
					    "ADDRESS", "connect from this address"});
	n = volume_options_add(t, n,
			       (struct arg){"dhchap-secret-file", 0, ARG_STRING, &o->secret_file,
					    "PATH", "secret of this host (DH-HMAC-CHAP)"});
	n = volume_options_add(t, n,
			       (struct arg){"dhchap-ctrl-secret-file", 0, ARG_STRING,
					    &o->ctrl_secret_file, "PATH",
					    "secret of the target, which must then prove it"});
	n = volume_options_add(
		t, n,
		(struct arg){"fabric", 0, ARG_STRING, &o->fabric, "auto|soft|soft-roce|DEVICE",
			     "RDMA device, or the software provider (default: auto)"});
	n = volume_options_add(
		t, n,
		(struct
		 arg){"queues", 0, ARG_UINT, &o->n_queues, "N",
		      "one queue and thread a connection, up to N (default: as many as pay, up to 4)",
		      1, VOLUME_QUEUES_MAX});
	n = volume_options_add(t, n,
			       (struct arg){"queue-size", 0, ARG_UINT, &o->queue_size, "N",
					    "commands in flight on a queue (default: 128)", 16,
					    1024});
	n = volume_options_add(
		t, n,
		(struct
		 arg){"buffers", 0, ARG_SIZE, &o->buffer_bytes, "SIZE",
		      "locked memory of all queues together (default: 32MiB a queue, or as the limit allows)",
		      MIB, 64 * GIB});
	n = volume_options_add(t, n,
			       (struct arg){"spin", 0, ARG_STRING, &o->spin,
					    "auto|always|never|TIME",
					    "how long to poll before sleeping (default: auto)"});
	return volume_options_add(
		t, n,
		(struct arg){"memory-windows", 0, ARG_FLAG, &o->has_windows, NULL,
			     "give the target a separate key for each command (type 2 windows)"});
}

/* How long the target is waited for, and what happens then. */
static unsigned add_loss_options(struct volume_options *o, struct arg *t, unsigned n)
{
	n = volume_options_add(t, n,
			       (struct arg){"keep-alive", 0, ARG_DURATION, &o->keep_alive_ns,
					    "TIME", "keep-alive timeout, 0: none (default: 10s)", 0,
					    3600 * NSEC_PER_SEC});
	n = volume_options_add(
		t, n,
		(struct
		 arg){"io-timeout", 0, ARG_DURATION, &o->io_timeout_ns, "TIME",
		      "check the target when a command has no answer for this long (default: 30s)",
		      NSEC_PER_SEC, 3600 * NSEC_PER_SEC});
	n = volume_options_add(t, n,
			       (struct arg){"reconnect-delay", 0, ARG_DURATION,
					    &o->reconnect_delay_ns, "TIME",
					    "pause between attempts to reconnect (default: 2s)",
					    NSEC_PER_MSEC, 3600 * NSEC_PER_SEC});
	n = volume_options_add(
		t, n,
		(struct arg){"ctrl-loss-tmo", 0, ARG_STRING, &o->ctrl_loss_tmo, "TIME|never",
			     "stop reconnecting and fail I/O after this time (default: 10min)"});
	n = volume_options_add(
		t, n,
		(struct arg){
			"fail-on-denial", 0, ARG_FLAG, &o->fails_on_denial, NULL,
			"fail I/O at once when the target denies access or removes the namespace"});
	n = volume_options_add(
		t, n,
		(struct arg){"fence", 0, ARG_CHOICE, &o->fence, "require|off",
			     "send a write again only after proof that its first copy is gone", 0,
			     0, fence_names});
	return volume_options_add(
		t, n,
		(struct arg){
			"fast-io-fail-tmo", 0, ARG_STRING, &o->fast_io_fail_tmo, "TIME|never",
			"fail I/O that has waited this long for a reconnect (default: never)"});
}

/* The order is that of --help: first what most users need. */
unsigned volume_options_table(struct volume_options *o, struct arg *t, unsigned n)
{
	n = volume_options_add(t, n,
			       (struct arg){"ns", 'n', ARG_UINT, &o->nsid, "N",
					    "namespace id (default: 1)", 1, UINT32_MAX - 1});
	n = volume_options_add(
		t, n,
		(struct arg){"name", 0, ARG_STRING, &o->name, "NAME",
			     "name of the volume on this machine (default: from the NQN)"});
	n = volume_options_add(
		t, n,
		(struct arg){"read-only", 'r', ARG_FLAG, &o->is_read_only, NULL, "refuse writes"});
	n = volume_options_add(
		t, n,
		(struct arg){"frontend", 0, ARG_CHOICE, &o->frontend, "auto|nbd|socket",
			     "nbd: /dev/nbdN; socket: only the NBD socket; auto: nbd if available",
			     0, 0, frontend_names});
	n = socket_options_table(o, t, n);
	n = volume_options_add(
		t, n,
		(struct arg){"metrics", 0, ARG_STRING, &o->metrics, "ADDRESS[:PORT]",
			     "metrics for Prometheus by HTTP, without access control (port 9808)"});
	n = volume_options_add(t, n,
			       (struct arg){"max-connections", 0, ARG_UINT, &o->max_connections,
					    "N", "NBD clients at a time (default: 16)", 1, 1024});
	n = volume_options_add(t, n,
			       (struct arg){"device-connections", 0, ARG_UINT,
					    &o->n_kernel_connections, "N",
					    "queues of the block device (default: 1)", 1, 16});
	n = add_connection_options(o, t, n);
	n = add_loss_options(o, t, n);
	return volume_options_add(t, n,
				  (struct arg){"verbose", 'v', ARG_FLAG, &o->is_verbose, NULL,
					       "log connections and state changes"});
}

/* ---- applying ------------------------------------------------------------------------------ */

/* "off" and -1 are what nvme-cli and the kernel's sysfs call "never". */
static int parse_timeout(const char *option, const char *text, uint64_t *into, struct error *error)
{
	if (!text)
		return 0;
	if (!strcmp(text, "never") || !strcmp(text, "off") || !strcmp(text, "-1")) {
		*into = UINT64_MAX;
		return 0;
	}
	if (units_parse_duration(text, into) == 0)
		return 0;
	error_set(error, EXIT_USAGE, NULL, "%s: '%.100s' is neither a time like 30s nor 'never'",
		  option, text);
	return EXIT_USAGE;
}

/* Empty is a mistake, not "none": a variable of a script that was not set would switch it off. */
static int apply_path(const char *option, const char *path, char into[VOLUME_PATH_MAX],
		      struct error *error)
{
	if (!path)
		return 0;
	if (!*path || strlen(path) >= VOLUME_PATH_MAX) {
		error_set(error, EXIT_USAGE, NULL, "%s: not a path", option);
		return EXIT_USAGE;
	}
	strcpy(into, path);
	return 0;
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
static int apply_secrets(const struct volume_options *o, struct volume_config *config,
			 struct error *error)
{
	if (o->ctrl_secret_file && !o->secret_file) {
		error_set(
			error, EXIT_USAGE, NULL,
			"--dhchap-ctrl-secret-file needs --dhchap-secret-file: the host proves itself first");
		return EXIT_USAGE;
	}
	if (apply_path("--dhchap-secret-file", o->secret_file, config->secret_file, error) ||
	    apply_path("--dhchap-ctrl-secret-file", o->ctrl_secret_file, config->ctrl_secret_file,
		       error))
		return EXIT_USAGE;
	return check_secrets(config, error);
}

/* --buffers is divided among the queues. */
static int apply_buffers(const struct volume_options *o, struct volume_config *config,
			 struct error *error)
{
	if (!o->buffer_bytes)
		return 0;
	config->slab_bytes = o->buffer_bytes / config->n_queues;
	config->may_shrink_slab = false;
	if (config->slab_bytes >= VOLUME_SLAB_MIN)
		return 0;
	error_set(error, EXIT_USAGE, "take fewer --queues, or more",
		  "--buffers: a queue needs %u KiB, so %u of them %u KiB",
		  (unsigned)(VOLUME_SLAB_MIN / KIB), config->n_queues,
		  (unsigned)(config->n_queues * (VOLUME_SLAB_MIN / KIB)));
	return EXIT_USAGE;
}

/* Each address is one path. Two paths to one portal would share its fate, and mostly are a slip.
 * The other mistakes, as a portal of another subsystem, are found when the paths are connected. */
static int apply_paths(const struct volume_options *o, struct volume_config *config,
		       struct error *error)
{
	for (unsigned i = 0; i < o->paths.n; i++) {
		const char *text = o->paths.items[i];
		union addr address;

		if (addr_parse_with_port(text, TARGET_DEFAULT_PORT, &address) < 0 ||
		    addr_lacks_scope(&address)) {
			error_set(
				error, EXIT_USAGE,
				"write it like 192.0.2.1:4420, [2001:db8::1]:4420 or fe80::1%eth0",
				"--path: '%.100s' is not an address", text);
			return EXIT_USAGE;
		}
		if (volume_config_has_path(config, &address)) {
			error_set(error, EXIT_USAGE, "each portal is one path",
				  "--path: '%.100s' is given twice", text);
			return EXIT_USAGE;
		}
		config->others[config->n_others++] = address;
	}
	config->policy = (enum volume_policy)o->policy;
	return 0;
}

/* 0, or an exit code with *error filled; so are all apply_ functions. */
static int apply_connection(const struct volume_options *o, struct volume_config *config,
			    struct error *error)
{
	config->nsid = (uint32_t)o->nsid;
	if (o->n_queues)
		config->n_queues = (unsigned)o->n_queues;
	config->queue_size = (unsigned)o->queue_size;
	config->has_windows = o->has_windows;
	config->fails_on_denial = o->fails_on_denial;
	config->finds_paths = o->finds_paths;
	config->fence = (enum volume_fence)o->fence;
	config->keep_alive_ns = o->keep_alive_ns;
	config->io_timeout_ns = o->io_timeout_ns;
	config->reconnect_delay_ns = o->reconnect_delay_ns;
	if (apply_paths(o, config, error) || apply_buffers(o, config, error) ||
	    apply_secrets(o, config, error))
		return (int)error->code;
	if (parse_timeout("--ctrl-loss-tmo", o->ctrl_loss_tmo, &config->ctrl_loss_tmo_ns, error) ||
	    parse_timeout("--fast-io-fail-tmo", o->fast_io_fail_tmo, &config->fast_io_fail_tmo_ns,
			  error))
		return EXIT_USAGE;
	if (o->host_address && addr_parse(o->host_address, 0, &config->host_address) < 0) {
		error_set(error, EXIT_USAGE, NULL, "--host-address: '%.100s' is not an address",
			  o->host_address);
		return EXIT_USAGE;
	}
	return host_identity_load("/etc/nvme", o->hostnqn, o->hostid, config, error) < 0
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
		r = spin_option(o->spin, &config->spin, error);
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
	config->has_fixed_queues = o->n_queues > 0;
	config->kernel.n_connections = (unsigned)o->n_kernel_connections;
	config->kernel.io_timeout_s = kernel_timeout_s(&config->volume);
	return 0;
}
