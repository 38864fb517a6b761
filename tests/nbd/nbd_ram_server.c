/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbd_ram_server [--tcp PORT] [--control PATH] [--max-connections N] [--read-only] [--pool]
 *                SOCKET | --stdio
 *
 * The volume process on a volume in memory (tests/lib/volume_ram.h): the whole NBD server without
 * RDMA. Prints "ready" on standard output when it accepts clients.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/bits.h"
#include "base/log.h"
#include "base/output.h"
#include "nbd_bridge/control/bridge.h"
#include "nbd_bridge/control/frontend_socket.h"
#include "tests/lib/volume_ram.h"

static void on_ready(void *context, const struct bridge_ready *ready)
{
	const struct bridge_config *config = context;

	if (*ready->note)
		fprintf(stderr, "%s\n", ready->note);
	if (!config->sockets.is_stdio) {
		puts("ready");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	struct bridge_config config = {.name = "ram",
				       .frontend = BRIDGE_FRONTEND_SOCKET,
				       .on_ready = on_ready,
				       .context = &config};
	uint64_t max_connections = 16, queues = 4;
	bool is_debug = false, has_pool = false;
	const struct arg table[] = {
		{"control", 0, ARG_STRING, &config.control_path, "PATH", "control socket", 0, 0,
		 NULL},
		{"max-connections", 0, ARG_UINT, &max_connections, "N", "", 1, 1024, NULL},
		{"queues", 0, ARG_UINT, &queues, "N", "workers", 1, 64, NULL},
		{"pool", 0, ARG_FLAG, &has_pool, NULL, "as many workers as pay", 0, 0, NULL},
		{"read-only", 0, ARG_FLAG, &config.is_read_only, NULL, "", 0, 0, NULL},
		{"stdio", 0, ARG_FLAG, &config.sockets.is_stdio, NULL, "", 0, 0, NULL},
		{"debug", 0, ARG_FLAG, &is_debug, NULL, "", 0, 0, NULL},
		{0},
	};
	const struct args_usage usage = {"nbd_ram_server", "[SOCKET]", "NBD server for tests", 0,
					 1};
	const char *slab = getenv("VOLUME_RAM_SLAB");
	struct error error;
	int at, code = args_parse(&usage, table, argc, argv, &at);

	if (code >= 0)
		return code;
	log_init("nbd_ram_server", is_debug ? LOG_DEBUG : LOG_INFO);
	volume_config_init(&config.volume);
	config.volume.slab_bytes = slab ? strtoull(slab, NULL, 0) : 8 * MIB;
	config.volume.spin = 0;
	snprintf(config.volume.subnqn, sizeof(config.volume.subnqn), "nqn.2026-01.test:ram");
	config.volume.n_queues = (unsigned)queues;
	config.has_fixed_queues = !has_pool;
	config.max_connections = (unsigned)max_connections;
	config.sockets.path = at < argc ? argv[at] : NULL;
	config.sockets.mode = 0600;
	config.sockets.n_inherited = frontend_n_inherited();
	code = bridge_run(&config, &error);
	return code ? fail_with("nbd_ram_server", error.code, error.hint, "%s", error.message) : 0;
}
