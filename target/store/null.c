/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store that keeps nothing: writes are dropped, reads return zeroes. It measures everything but a
 * store, and it is the backend to copy for a new one (docs/HACKING.md, "A backend").
 *
 * Identity. After a restart the contents are the same as before, zeroes, so hosts find the same
 * namespace again, unlike one in RAM.
 *
 * The duties of each function of a backend:
 *
 * - open runs on the control thread and may wait. It sets limits truthfully, because hosts order
 *   their writes by them (durability, has_volatile_cache) and align to them. On failure it writes
 *   to *error what is wrong and what to do, in one line that names the store.
 * - check is open without any effect: rblkd --check calls it while another rblkd exports the same
 *   store.
 * - submit runs on every poller at once. It calls backend_take first, then starts one step:
 *     backend_skip        the result is known already
 *     backend_aio_start   libaio on a file descriptor
 *     backend_pool_start  anything that waits, on a worker thread
 *   and sets step->then before that, to start a second step or to check the result; by default the
 *   end of the step ends the io. A transfer that is not whole is -EIO. submit never calls io->done.
 * - A library with completions of its own calls loop_send(io->loop, &io->msg) from its callback, as
 *   pool.c does.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "target/store/backends.h"
#include "target/store/step.h"
#include "target/store/thread.h"

struct null {
	/* Thread: control, except what backend.h gives to the pollers */
	struct backend backend;
};

static int null_check(const struct backend_config *config, uint64_t ret_identity[2],
		      struct error *error)
{
	/* Two namespaces of one identity are refused; here there is nothing to share. */
	ret_identity[0] = ret_identity[1] = 0;
	if (config->size_bytes % config->block_size == 0)
		return 0;
	return error_refuse(error, -EINVAL,
			    "null: %" PRIu64 " bytes is not a multiple of block_size %u",
			    config->size_bytes, config->block_size);
}

static int null_open(const struct backend_config *config, struct backend **ret_backend,
		     struct error *error)
{
	uint64_t identity[2];
	struct null *null;
	int r = null_check(config, identity, error);

	if (r < 0)
		return r;
	null = calloc(1, sizeof(*null));
	if (!null)
		return error_refuse(error, -ENOMEM, "null: out of memory");
	null->backend.ops = &backend_null;
	null->backend.limits = (struct backend_limits){
		.size_bytes = config->size_bytes,
		.min_block = 512,
		.physical_block = 4096,
		.durability = DURABILITY_NONE,
		.others = OTHERS_NONE,
		.is_read_only = config->is_read_only,
		.can_discard = true,
		.discard_reads_zero = true,
		.can_write_zeroes = true,
	};
	log_warn("null: a namespace that keeps nothing: writes are dropped, reads give zeroes");
	*ret_backend = &null->backend;
	return 0;
}

static void null_close(struct backend *backend)
{
	if (backend)
		free(container_of(backend, struct null, backend));
}

static void null_submit(struct backend *backend, struct backend_thread *thread,
			struct backend_io *io)
{
	backend_take(backend, thread, io);
	if (io->op == BACKEND_READ)
		memset(io->buffer, 0, io->length); /* never what the buffer held before */
	backend_skip(io, 0);
}

static int null_resize(struct backend *backend, uint64_t size_bytes, struct error *error)
{
	if (!size_bytes || size_bytes == backend->limits.size_bytes)
		return 0;
	backend->grown_from = backend->limits.size_bytes;
	backend->grown_to = size_bytes;
	backend->limits.size_bytes = size_bytes;
	return 0;
}

static int null_undo_grow(struct backend *backend, struct error *error)
{
	backend->limits.size_bytes = backend->grown_from;
	return 0;
}

const struct backend_ops backend_null = {
	.name = "null",
	.key = {.type = CONF_SIZE,
		.min = 4096,
		.max = 1ULL << 60,
		.help = "Serves this many bytes of nothing: reads give zeroes, writes are dropped."},
	.open = null_open,
	.close = null_close,
	.check = null_check,
	.submit = null_submit,
	.resize = null_resize,
	.undo_grow = null_undo_grow,
	/* No .memory, so data goes through the poller's buffers. */
};
