/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in for test_plugin.c: reads give PLUGIN_BYTE, all else succeeds. FAULT_... spoils it. */
#include <stdlib.h>
#include <string.h>

#ifdef FAULT_NAME
#	define rblk_backend_plugin plugin_of_another_name
#endif
#include "target/store/plugin.h"
#include "target/store/rbd/open.h"

enum {
	PLUGIN_BYTE = 0x5a,
};

static const struct backend_host *host;

static int test_check(const struct backend_config *config, uint64_t ret_identity[2],
		      struct error *error)
{
	ret_identity[0] = ret_identity[1] = 0;
	return config->size_bytes ? 0 : host->refuse(error, -22, "%s: no size", config->path);
}

static int test_open(const struct backend_config *config, struct backend **ret_backend,
		     struct error *error)
{
	struct backend *backend = calloc(1, sizeof(*backend));

	if (!backend)
		return host->refuse(error, -12, "out of memory");
	backend->ops = rblk_backend_plugin.ops;
	backend->limits = (struct backend_limits){.size_bytes = config->size_bytes,
						  .min_block = 512};
	*ret_backend = backend;
	return 0;
}

static void test_close(struct backend *backend)
{
	free(backend);
}

static void on_message(struct loop_msg *msg)
{
	struct backend_io *io = container_of(msg, struct backend_io, msg);

	backend_step(io)->then(io, io->result);
}

static void test_submit(struct backend *backend, struct backend_thread *thread,
			struct backend_io *io)
{
	host->take(backend, thread, io);
	if (io->op != BACKEND_READ) {
		host->skip(io, 0);
		return;
	}
	memset(io->buffer, PLUGIN_BYTE, io->length);
	io->msg.run = on_message;
	host->send(io->loop, &io->msg);
}

static void test_start(const struct backend_host *given)
{
	host = given;
}

static const struct backend_ops test_ops = {
	.name = "test",
	.open = test_open,
	.close = test_close,
	.check = test_check,
	.submit = test_submit,
};

#ifndef FAULT_RELEASE
#	define FAULT_RELEASE RBLK_VERSION
#endif
#ifndef FAULT_VERSION
#	define FAULT_VERSION 0
#endif
#ifndef FAULT_BYTES
#	define FAULT_BYTES 0
#endif

__attribute__((visibility("default"))) const struct backend_plugin rblk_backend_plugin = {
	.layout = {BACKEND_PLUGIN_VERSION + FAULT_VERSION,
		   {sizeof(struct backend_plugin), sizeof(struct backend_host),
		    sizeof(struct backend), sizeof(struct backend_ops),
		    sizeof(struct backend_config), sizeof(struct backend_io) + FAULT_BYTES,
		    sizeof(struct backend_step), sizeof(struct record_op)},
		   FAULT_RELEASE},
	.ops = &test_ops,
	.start = test_start,
};
