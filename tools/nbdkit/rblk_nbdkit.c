/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdkit's plug-in for NVMe over RDMA volumes, by librblk: nbdkit-rblk-plugin(1). One volume for
 * all connections. A request takes a queue that is free, or waits for one; so requests of any
 * thread run at once, as many as there are queues.
 *
 * nbdkit's buffers come and go with its threads, unseen by a plug-in, so their registrations cannot
 * be kept. Each queue has registered memory of its own instead, through which requests up to its
 * size are copied; nbdkit's buffer is registered for a longer one.
 */
#define NBDKIT_API_VERSION 2
#include <errno.h>
#include <nbdkit-plugin.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library/rblk.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

enum {
	OPTIONS_MAX = 32,
	QUEUES_MAX = 64,
	SLAB_BYTES = 256 << 10,
};

/* nbdkit's threads are as many by default. */
#define QUEUES_WANTED "16"

struct lane {
	struct rblk_queue *queue;   /* owned */
	char *slab;		    /* owned, SLAB_BYTES */
	struct rblk_memory *memory; /* of slab; NULL: it cannot be registered, and is not used */
};

static char *uri;
static struct rblk_option options[OPTIONS_MAX + 1]; /* owned texts */
static unsigned n_options;
static struct rblk_volume *volume;

/* The free queues. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static struct lane lanes[QUEUES_MAX];
static struct lane *free_lanes[QUEUES_MAX];
static unsigned n_free, n_lanes;

/* ---- configuration ---- */

static int add_option(const char *key, const char *value)
{
	if (n_options == OPTIONS_MAX) {
		nbdkit_error("more than %d options", OPTIONS_MAX);
		return -1;
	}
	options[n_options] = (struct rblk_option){strdup(key), strdup(value)};
	return options[n_options].name && options[n_options++].value ? 0 : -1;
}

static int config(const char *key, const char *value)
{
	if (strcmp(key, "uri") != 0)
		return add_option(key, value);
	free(uri);
	uri = strdup(value);
	return uri ? 0 : -1;
}

static bool is_given(const char *name)
{
	for (unsigned i = 0; i < n_options; i++)
		if (!strcmp(options[i].name, name))
			return true;
	return false;
}

static int config_complete(void)
{
	if (uri)
		return is_given("queues") ? 0 : add_option("queues", QUEUES_WANTED);
	nbdkit_error("uri=nvme+rdma://HOST[:PORT]/NQN?ns=1 is missing");
	return -1;
}

/* nbdkit shows the failure, and ends. */
static int fail(const struct rblk_error *error)
{
	nbdkit_error("%s%s%s", error->message, *error->hint ? "; " : "", error->hint);
	return -1;
}

/* Warnings and errors are shown always, the rest with nbdkit -v. */
static void log_message(void *context, int level, const char *text)
{
	if (level <= 4)
		fprintf(stderr, "nbdkit: rblk: %s\n", text);
	else
		nbdkit_debug("%s", text);
}

static int open_lane(struct lane *lane, struct rblk_error *error)
{
	if (rblk_queue_open(volume, &lane->queue, error) < 0)
		return -1;
	lane->slab = aligned_alloc(4096, SLAB_BYTES);
	if (lane->slab)
		rblk_memory_register(volume, lane->slab, SLAB_BYTES, &lane->memory, NULL);
	return 0;
}

/* As many as the target grants; one is enough to go on. */
static int open_lanes(void)
{
	struct rblk_error error;
	struct rblk_info info;

	rblk_get_info(volume, &info);
	while (n_lanes < info.n_queues && n_lanes < QUEUES_MAX) {
		if (open_lane(&lanes[n_lanes], &error) < 0)
			return n_lanes ? 0 : fail(&error);
		free_lanes[n_free++] = &lanes[n_lanes++];
	}
	return 0;
}

/* nbdkit may have become a daemon just before: a child process cannot use its parent's volume. */
static int after_fork(void)
{
	struct rblk_error error;

	rblk_set_log(log_message, NULL);
	if (rblk_open(uri, options, &volume, &error) < 0)
		return fail(&error);
	return open_lanes();
}

static void cleanup(void)
{
	while (n_lanes) {
		struct lane *lane = &lanes[--n_lanes];

		rblk_queue_close(lane->queue);
		rblk_memory_unregister(lane->memory);
		free(lane->slab);
	}
	rblk_close(volume);
}

static void unload(void)
{
	while (n_options--) {
		free((void *)(uintptr_t)options[n_options].name);
		free((void *)(uintptr_t)options[n_options].value);
	}
	free(uri);
}

/* ---- I/O ---- */

static struct lane *take_lane(void)
{
	struct lane *lane;

	pthread_mutex_lock(&lock);
	while (!n_free)
		pthread_cond_wait(&freed, &lock);
	lane = free_lanes[--n_free];
	pthread_mutex_unlock(&lock);
	return lane;
}

static void give_lane(struct lane *lane)
{
	pthread_mutex_lock(&lock);
	free_lanes[n_free++] = lane;
	pthread_cond_signal(&freed);
	pthread_mutex_unlock(&lock);
}

/* A read or write through the lane's memory. */
static int run_copied(struct lane *lane, struct rblk_io *io)
{
	void *buffer = io->buffer;
	int r;

	io->buffer = lane->slab;
	io->memory = lane->memory;
	if (io->op == RBLK_WRITE)
		memcpy(lane->slab, buffer, io->length);
	r = rblk_run(lane->queue, io);
	if (r == 0 && io->op == RBLK_READ)
		memcpy(buffer, lane->slab, io->length);
	return r;
}

/* Waits for a queue and for the end of the I/O; 0, or -1 after nbdkit_error. */
static int run(struct rblk_io *io)
{
	bool has_data = io->op == RBLK_READ || io->op == RBLK_WRITE;
	struct lane *lane = take_lane();
	int r = has_data && lane->memory && io->length <= SLAB_BYTES ? run_copied(lane, io)
								     : rblk_run(lane->queue, io);

	give_lane(lane);
	if (r == 0)
		return 0;
	nbdkit_set_error(-r);
	/* nbdkit writes zeroes itself then */
	if (r != -EOPNOTSUPP)
		nbdkit_error("%s", strerror(-r));
	return -1;
}

static uint32_t flags_of(uint32_t flags)
{
	return (flags & NBDKIT_FLAG_FUA ? RBLK_FUA : 0) |
	       (flags & NBDKIT_FLAG_MAY_TRIM ? RBLK_MAY_UNMAP : 0);
}

static int rblk_plugin_pread(void *handle, void *buffer, uint32_t count, uint64_t offset,
			     uint32_t flags)
{
	struct rblk_io io = {.op = RBLK_READ, .buffer = buffer, .offset = offset, .length = count};

	return run(&io);
}

static int rblk_plugin_pwrite(void *handle, const void *buffer, uint32_t count, uint64_t offset,
			      uint32_t flags)
{
	struct rblk_io io = {.op = RBLK_WRITE,
			     .buffer = (void *)(uintptr_t)buffer,
			     .offset = offset,
			     .length = count,
			     .flags = flags_of(flags)};

	return run(&io);
}

static int rblk_plugin_flush(void *handle, uint32_t flags)
{
	struct rblk_io io = {.op = RBLK_FLUSH};

	return run(&io);
}

static int rblk_plugin_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct rblk_io io = {.op = RBLK_WRITE_ZEROES,
			     .offset = offset,
			     .length = count,
			     .flags = flags_of(flags)};

	return run(&io);
}

/* Dataset Management has no FUA, so a flush follows. */
static int rblk_plugin_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct rblk_io io = {.op = RBLK_DISCARD, .offset = offset, .length = count};
	struct rblk_io flush = {.op = RBLK_FLUSH};
	int r = run(&io);

	return r == 0 && flags & NBDKIT_FLAG_FUA ? run(&flush) : r;
}

static int rblk_plugin_extents(void *handle, uint32_t count, uint64_t offset, uint32_t flags,
			       struct nbdkit_extents *extents)
{
	struct rblk_extents found;
	struct rblk_io io = {.op = RBLK_EXTENTS, .buffer = &found, .offset = offset};
	uint64_t end = offset + count;

	while (io.offset < end) {
		io.length = end - io.offset;
		if (run(&io) < 0)
			return -1;
		for (uint32_t i = 0; i < found.n; i++) {
			uint32_t type = found.of[i].is_hole
						? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO
						: 0;

			if (nbdkit_add_extent(extents, io.offset, found.of[i].length, type) < 0)
				return -1;
			io.offset += found.of[i].length;
		}
		if (flags & NBDKIT_FLAG_REQ_ONE)
			break;
	}
	return 0;
}

/* ---- what the volume is ---- */

static void *open_connection(int is_read_only)
{
	return NBDKIT_HANDLE_NOT_NEEDED;
}

/* Each connection asks again: a target may grow a namespace. */
static struct rblk_info info_now(void)
{
	struct rblk_info info = {0};

	rblk_get_info(volume, &info);
	return info;
}

static int64_t get_size(void *handle)
{
	return (int64_t)info_now().size_bytes;
}

static int get_block_size(void *handle, uint32_t *min, uint32_t *preferred, uint32_t *max)
{
	struct rblk_info info = info_now();

	*min = info.block_size;
	*preferred = info.block_size > 4096 ? info.block_size : 4096;
	*max = 32u << 20;
	return 0;
}

static int can_write(void *handle)
{
	return !info_now().is_read_only;
}

static int can_trim(void *handle)
{
	return info_now().has_discard != 0;
}

static int can_zero(void *handle)
{
	return info_now().has_write_zeroes != 0;
}

static int can_flush(void *handle)
{
	return 1;
}

static int can_fua(void *handle)
{
	return NBDKIT_FUA_NATIVE;
}

static struct nbdkit_plugin plugin = {
	.name = "rblk",
	.longname = "NVMe over RDMA volumes",
	.version = RBLK_VERSION,
	.config = config,
	.config_complete = config_complete,
	.config_help = "uri=<URI>  nvme+rdma://HOST[:PORT]/NQN?ns=1 (required)\n"
		       "NAME=VALUE  options of librblk(3)",
	.magic_config_key = "uri",
	.after_fork = after_fork,
	.cleanup = cleanup,
	.unload = unload,
	.open = open_connection,
	.get_size = get_size,
	.block_size = get_block_size,
	.can_write = can_write,
	.can_trim = can_trim,
	.can_zero = can_zero,
	.can_flush = can_flush,
	.can_multi_conn = can_flush, /* a flush covers all queues */
	.can_fua = can_fua,
	.can_extents = can_flush, /* where the target cannot tell, all is data */
	.pread = rblk_plugin_pread,
	.pwrite = rblk_plugin_pwrite,
	.flush = rblk_plugin_flush,
	.zero = rblk_plugin_zero,
	.trim = rblk_plugin_trim,
	.extents = rblk_plugin_extents,
};
NBDKIT_REGISTER_PLUGIN(plugin)
