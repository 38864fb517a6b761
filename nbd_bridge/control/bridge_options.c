/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "base/json.h"
#include "nbd_bridge/control/bridge_options.h"

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

/* -1: the file stays whose it is. */
static void put_id(struct json_object *o, const char *option, unsigned id)
{
	if (id == UINT32_MAX)
		put(o, option, "");
	else
		put_number(o, option, id);
}

struct json_object *bridge_options(const struct bridge_config *config)
{
	const struct frontend_socket_config *sockets = &config->sockets;
	struct json_object *o = json_object_new_object();
	char mode[16], address[ADDR_STRING_MAX], text[VOLUME_OPTION_MAX];

	snprintf(mode, sizeof(mode), "%04o", (unsigned)sockets->mode);
	put(o, "read-only", config->is_read_only ? "yes" : "no");
	put(o, "socket", sockets->path ?: "");
	put_id(o, "socket-owner", sockets->owner);
	put_id(o, "socket-group", sockets->group);
	put(o, "socket-mode", mode);
	put(o, "metrics", config->metrics ? addr_format(address, &config->metrics_address) : "");
	put_number(o, "max-connections", config->max_connections);
	put_number(o, "device-connections", config->kernel.n_connections);
	for (unsigned i = 0; i < VOLUME_OPTIONS; i++)
		put(o, volume_option_table[i].name,
		    volume_option_format(&volume_option_table[i], &config->volume, text));
	if (!config->has_fixed_queues)
		put(o, "queues", "auto");
	return o;
}
