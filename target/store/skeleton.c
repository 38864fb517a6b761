/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend that stores nothing: writes vanish, reads are zeroes. Copy it to start a new one.
 *
 * 1. Give the copy a name here and in backend.h, a key in config/schema.c, and a line in
 *    config_backend (config.c), which chooses the ops.
 * 2. open runs on the control thread and may wait; it fills limits truthfully, because hosts
 *    order their writes by them (has_volatile_cache!) and align to them. On failure it says in
 *    `why` what is wrong and what to do, in one line that names the thing.
 * 3. check is open without any effect: rblkd --check calls it while another rblkd exports the
 *    same.
 * 4. submit runs on every poller at once. backend_take first; then start one step:
 *      backend_skip        the result is known already
 *      backend_aio_start   libaio on a file descriptor
 *      backend_pool_start  anything that waits, on a worker thread
 *    Set step->then before, to start a second step or to look at the result; by default the io
 *    is given back. A transfer that is not whole is -EIO. Never call io->done from inside of
 *    submit.
 * 5. A library with completions of its own calls loop_send(io->loop, &io->msg) from its callback,
 *    as pool.c does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/store/thread.h"

struct skeleton {
	struct backend backend; /* what the rest of the target sees */
				/* Thread: say who writes what */
};

static int skeleton_check(const struct backend_config *config, uint64_t ret_identity[2], char *why,
			  size_t n)
{
	/* Two namespaces with the same identity are refused, unless both are read-only.
	 */
	ret_identity[0] = ret_identity[1] = 0;
	return 0;
}

static int skeleton_open(const struct backend_config *config, struct backend **ret_backend,
			 char *why, size_t n)
{
	struct skeleton *skeleton = calloc(1, sizeof(*skeleton));

	if (!skeleton) {
		snprintf(why, n, "out of memory");
		return -ENOMEM;
	}
	skeleton->backend.ops = &backend_skeleton;
	skeleton->backend.limits = (struct backend_limits){
		.size_bytes = config->size_bytes,
		.min_block = 512,
		.is_read_only = config->is_read_only,
		.can_discard = true,
		.discard_reads_zero = true,
		.can_write_zeroes = true,
	};
	*ret_backend = &skeleton->backend;
	return 0;
}

static void skeleton_close(struct backend *backend)
{
	if (backend)
		free(container_of(backend, struct skeleton, backend));
}

static void skeleton_submit(struct backend *backend, struct backend_thread *thread,
			    struct backend_io *io)
{
	backend_take(backend, thread, io);
	if (io->op == BACKEND_READ)
		memset(io->buffer, 0, io->length); /* never what the buffer held before */
	backend_skip(io, 0);
}

static int skeleton_resize(struct backend *backend, uint64_t size_bytes, char *why, size_t n)
{
	if (size_bytes)
		backend->limits.size_bytes = size_bytes;
	return 0;
}

const struct backend_ops backend_skeleton = {
	.name = "skeleton",
	.open = skeleton_open,
	.close = skeleton_close,
	.check = skeleton_check,
	.submit = skeleton_submit,
	.resize = skeleton_resize,
	/* .memory: none, so data goes through the poller's buffers */
};
