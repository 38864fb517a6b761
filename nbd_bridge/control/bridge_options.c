/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A volume's options in the form of the command line: names and texts. The process reports them in
 * its status; `rblk attach` makes the same object from its own command line and compares the two.
 * So each option of attach has a line here.
 */
#include <stdio.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/spin.h"
#include "base/units.h"
#include "nbd_bridge/control/bridge.h"

static void put(struct json_object *o, const char *option, const char *value)
{
	json_add(o, option, json_object_new_string(value));
}

static void put_number(struct json_object *o, const char *option, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	put(o, option, text);
}

static void put_time(struct json_object *o, const char *option, uint64_t ns)
{
	char text[32];

	if (ns == UINT64_MAX)
		snprintf(text, sizeof(text), "never");
	else if (ns % NSEC_PER_SEC == 0)
		snprintf(text, sizeof(text), "%llus", (unsigned long long)(ns / NSEC_PER_SEC));
	else
		snprintf(text, sizeof(text), "%lluns", (unsigned long long)ns);
	put(o, option, text);
}

/* -1: the file stays whose it is. */
static void put_id(struct json_object *o, const char *option, unsigned id)
{
	if (id == UINT32_MAX)
		put(o, option, "");
	else
		put_number(o, option, id);
}

static void put_addresses(struct json_object *o, const char *option, const union addr *addresses,
			  unsigned n)
{
	char text[VOLUME_PATHS_MAX * (ADDR_STRING_MAX + 1) + 1] = "";
	char one[ADDR_STRING_MAX];

	for (unsigned i = 0, at = 0; i < n; i++)
		at += (unsigned)snprintf(text + at, sizeof(text) - at, "%s%s", i ? "," : "",
					 addr_format(one, &addresses[i]));
	put(o, option, text);
}

static void put_connection(struct json_object *o, const struct volume_config *volume)
{
	static const char *const policies[] = {
		[VOLUME_POLICY_LATENCY] = "latency",
		[VOLUME_POLICY_QUEUE_DEPTH] = "queue-depth",
		[VOLUME_POLICY_ROUND_ROBIN] = "round-robin",
	};
	char hostid[UUID_STR_LEN], size[UNITS_MAX];

	uuid_unparse_lower(volume->hostid, hostid);
	put(o, "hostnqn", volume->hostnqn);
	put(o, "hostid", hostid);
	put_addresses(o, "host-address", &volume->host_address,
		      volume->host_address.sa.sa_family != 0);
	put_addresses(o, "path", volume->others, volume->n_others);
	put(o, "policy", policies[volume->policy]);
	put(o, "dhchap-secret-file", volume->secret_file);
	put(o, "dhchap-ctrl-secret-file", volume->ctrl_secret_file);
	put_number(o, "queue-size", volume->queue_size);
	put(o, "buffers", units_format_exact(size, volume->slab_bytes * volume->n_queues));
	put(o, "memory-windows", volume->has_windows ? "yes" : "no");
	put_time(o, "keep-alive", volume->keep_alive_ns);
	put_time(o, "io-timeout", volume->io_timeout_ns);
	put(o, "fail-on-denial", volume->fails_on_denial ? "yes" : "no");
	put(o, "fence", volume->fence == VOLUME_FENCE_OFF ? "off" : "require");
	put_time(o, "reconnect-delay", volume->reconnect_delay_ns);
	put_time(o, "ctrl-loss-tmo", volume->ctrl_loss_tmo_ns);
	put_time(o, "fast-io-fail-tmo", volume->fast_io_fail_tmo_ns);
}

struct json_object *bridge_options(const struct bridge_config *config)
{
	const struct frontend_socket_config *sockets = &config->sockets;
	struct json_object *o = json_object_new_object();
	char mode[16], spin[UNITS_MAX];

	snprintf(mode, sizeof(mode), "%04o", (unsigned)sockets->mode);
	put(o, "read-only", config->is_read_only ? "yes" : "no");
	put(o, "socket", sockets->path ?: "");
	put_id(o, "socket-owner", sockets->owner);
	put_id(o, "socket-group", sockets->group);
	put(o, "socket-mode", mode);
	put_addresses(o, "metrics", &config->metrics_address, config->metrics != NULL);
	put_number(o, "max-connections", config->max_connections);
	put_number(o, "device-connections", config->kernel.n_connections);
	if (config->has_fixed_queues)
		put_number(o, "queues", config->volume.n_queues);
	else
		put(o, "queues", "auto");
	put(o, "spin", spin_format(spin, config->spin));
	put_connection(o, &config->volume);
	return o;
}
