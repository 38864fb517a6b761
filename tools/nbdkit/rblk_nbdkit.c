/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdkit's plug-in for NVMe over RDMA volumes, by librblk: nbdkit-rblk-plugin(1). One volume for
 * all connections. A request takes a queue that is free, or waits for one; so requests of any
 * thread run at once, as many as there are queues. nbdkit's buffers are registered for each
 * request.
 */
#define NBDKIT_API_VERSION 2
#include <errno.h>
#include <nbdkit-plugin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library/rblk.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

enum {
	OPTIONS_MAX = 32,
	QUEUES_MAX = 64,
};

static char *uri;
static struct rblk_option options[OPTIONS_MAX + 1]; /* owned texts */
static unsigned n_options;
static struct rblk_volume *volume;

/* The free queues. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static struct rblk_queue *queues[QUEUES_MAX];
static unsigned n_free, n_queues;

/* ---- configuration ---- */

static int config(const char *key, const char *value)
{
	if (!strcmp(key, "uri")) {
		free(uri);
		uri = strdup(value);
		return uri ? 0 : -1;
	}
	if (n_options == OPTIONS_MAX) {
		nbdkit_error("more than %d options", OPTIONS_MAX);
		return -1;
	}
	options[n_options] = (struct rblk_option){strdup(key), strdup(value)};
	return options[n_options].name && options[n_options++].value ? 0 : -1;
}

static int config_complete(void)
{
	if (uri)
		return 0;
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

/* As many as the target grants; one is enough to go on. */
static int open_queues(void)
{
	struct rblk_error error;
	struct rblk_info info;

	rblk_get_info(volume, &info);
	while (n_queues < info.n_queues && n_queues < QUEUES_MAX) {
		if (rblk_queue_open(volume, &queues[n_queues], &error) < 0)
			return n_queues ? 0 : fail(&error);
		n_queues++;
		n_free++;
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
	return open_queues();
}

static void cleanup(void)
{
	while (n_queues)
		rblk_queue_close(queues[--n_queues]);
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

static struct rblk_queue *take_queue(void)
{
	struct rblk_queue *queue;

	pthread_mutex_lock(&lock);
	while (!n_free)
		pthread_cond_wait(&freed, &lock);
	queue = queues[--n_free];
	pthread_mutex_unlock(&lock);
	return queue;
}

static void give_queue(struct rblk_queue *queue)
{
	pthread_mutex_lock(&lock);
	queues[n_free++] = queue;
	pthread_cond_signal(&freed);
	pthread_mutex_unlock(&lock);
}

/* Waits for a queue and for the end of the I/O; 0, or -1 after nbdkit_error. */
static int run(struct rblk_io *io)
{
	struct rblk_queue *queue = take_queue();
	int r = rblk_run(queue, io);

	give_queue(queue);
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
	.pread = rblk_plugin_pread,
	.pwrite = rblk_plugin_pwrite,
	.flush = rblk_plugin_flush,
	.zero = rblk_plugin_zero,
	.trim = rblk_plugin_trim,
};
NBDKIT_REGISTER_PLUGIN(plugin)
