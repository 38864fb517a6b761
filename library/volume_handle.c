/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing volumes. The caller's thread sends a call to the control thread, and waits
 * for what the volume answers there.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/log.h"
#include "initiator/control/find_paths.h"
#include "library/cache.h"
#include "library/handle.h"
#include "library/keeper.h"
#include "library/memory_handle.h"
#include "library/message.h"
#include "library/options.h"
#include "library/process.h"

/* An rblk_open or rblk_close that waits. */
struct outcome {
	struct rblk_volume *volume;
	const struct volume_config *config;
	int r;
	struct error error;
	sem_t done;
};

/* ---- control ---- */

static void learn(struct rblk_volume *volume)
{
	pthread_mutex_lock(&volume->lock);
	volume_get_info(volume->volume, &volume->info);
	atomic_store(&volume->size_bytes, volume->info.size_bytes);
	atomic_store(&volume->max_compare_bytes, volume->info.max_compare_bytes);
	pthread_mutex_unlock(&volume->lock);
}

static void on_opened(void *context, const struct error *error)
{
	struct rblk_volume *volume = context;
	struct outcome *outcome = volume->waiting;

	if (error) {
		outcome->error = *error;
		outcome->r = error_to_errno(error);
		volume_close(volume->volume);
		return;
	}
	learn(volume);
	sem_post(&outcome->done);
}

static void on_state(void *context, enum volume_state state)
{
	struct rblk_volume *volume = context;

	if (state != VOLUME_CLOSING)
		keeper_start(volume);
}

static void on_path(void *context)
{
	keeper_start(context);
}

static void on_changed(void *context)
{
	learn(context);
}

static void on_closed(void *context)
{
	struct rblk_volume *volume = context;

	loop_timer_stop(&volume->keeper);
	sem_post(&volume->waiting->done);
}

static const struct volume_callbacks callbacks = {.on_opened = on_opened,
						  .on_state = on_state,
						  .on_path = on_path,
						  .on_changed = on_changed,
						  .on_closed = on_closed};

static void begin_open(void *arg)
{
	struct outcome *outcome = arg;
	struct rblk_volume *volume = outcome->volume;
	int r = volume_open(process_loop(), outcome->config, &callbacks, volume, &volume->volume);

	if (r == 0)
		return;
	outcome->r = error_refuse(&outcome->error, r, "cannot open the volume: %s", strerror(-r));
	sem_post(&outcome->done);
}

static void begin_close(void *arg)
{
	volume_close(((struct outcome *)arg)->volume->volume);
}

/* ---- the caller ---- */

static int wait_for(struct rblk_volume *volume, void (*begin)(void *arg), struct outcome *outcome)
{
	outcome->volume = volume;
	volume->waiting = outcome;
	sem_init(&outcome->done, 0, 0);
	process_call(begin, outcome);
	while (sem_wait(&outcome->done) < 0)
		check(errno == EINTR);
	sem_destroy(&outcome->done);
	volume->waiting = NULL;
	return outcome->r;
}

static void free_volume(struct rblk_volume *volume)
{
	pthread_mutex_destroy(&volume->lock);
	free(volume);
}

static struct rblk_volume *new_volume(const struct open_options *options)
{
	struct rblk_volume *volume = calloc(1, sizeof(*volume));

	if (!volume)
		return NULL;
	snprintf(volume->name, sizeof(volume->name), "%s/%u", options->config.subnqn,
		 options->config.nsid);
	volume->spin_ns = options->config.spin;
	pthread_mutex_init(&volume->lock, NULL);
	list_init(&volume->queues);
	list_init(&volume->memories);
	list_init(&volume->ended_memories);
	keeper_init(volume);
	return volume;
}

/* The volume is open; what is missing. */
static int finish_open(struct rblk_volume *volume, const struct open_options *options,
		       struct error *error)
{
	struct outcome closing = {0};
	int r = 0;

	volume->block_mask = volume->info.block_size - 1;
	if (options->cache_bytes)
		r = cache_new(volume->volume, options->cache_bytes, &volume->cache);
	if (r == 0)
		return 0;
	wait_for(volume, begin_close, &closing);
	return error_refuse(error, r, "cannot make the cache: %s", strerror(-r));
}

static int open_volume(const struct open_options *options, struct rblk_volume **ret_volume,
		       struct error *error)
{
	struct rblk_volume *volume = new_volume(options);
	struct outcome outcome = {.config = &options->config};
	int r;

	if (!volume)
		return error_refuse(error, -ENOMEM, "out of memory");
	r = wait_for(volume, begin_open, &outcome);
	if (r < 0)
		*error = outcome.error;
	else
		r = finish_open(volume, options, error);
	if (r < 0)
		free_volume(volume);
	else
		*ret_volume = volume;
	return r;
}

static int open_with(struct open_options *options, struct rblk_volume **ret_volume,
		     struct error *error)
{
	int r = process_choose_fabric ? process_choose_fabric(options->fabric, error) : 0;

	if (r == 0 && options->config.finds_paths && find_paths(&options->config, error))
		r = error_to_errno(error);
	if (r == 0)
		r = process_take(error);
	if (r < 0)
		return r;
	r = open_volume(options, ret_volume, error);
	if (r < 0)
		process_give();
	return r;
}

int rblk_open(const char *uri, const struct rblk_option *options, struct rblk_volume **ret_volume,
	      struct rblk_error *ret_error)
{
	struct open_options o;
	struct error error;
	int r;

	*ret_volume = NULL;
	if (process_is_child())
		r = error_refuse(&error, -ECHILD,
				 "this process was forked from one that uses the library");
	else
		r = options_parse_uri(uri, options, &o, &error);
	if (r == 0)
		r = open_with(&o, ret_volume, &error);
	return r < 0 ? error_to_public(ret_error, r, &error) : 0;
}

int rblk_close(struct rblk_volume *volume)
{
	struct outcome outcome = {0};
	bool is_busy;

	if (!volume)
		return 0;
	if (process_is_child())
		return -ECHILD;
	pthread_mutex_lock(&volume->lock);
	is_busy = volume->n_queues > 0;
	pthread_mutex_unlock(&volume->lock);
	if (is_busy)
		return -EBUSY;
	cache_free(volume->cache);
	memory_free_all(volume);
	wait_for(volume, begin_close, &outcome);
	free_volume(volume);
	process_give();
	return 0;
}

int rblk_get_info(struct rblk_volume *volume, struct rblk_info *ret_info)
{
	const struct volume_info *info = &volume->info;

	if (process_is_child())
		return -ECHILD;
	pthread_mutex_lock(&volume->lock);
	*ret_info = (struct rblk_info){
		.size_bytes = info->size_bytes,
		.block_size = info->block_size,
		.max_io_bytes = info->max_transfer_bytes,
		.max_compare_bytes = info->max_compare_bytes,
		.n_queues = info->n_queues_granted,
		.is_read_only = info->is_read_only,
		.has_write_zeroes = info->has_write_zeroes,
		.has_discard = info->has_trim,
		.reads_zero_after_discard = info->reads_zero_after_trim,
	};
	memcpy(ret_info->uuid, info->uuid, sizeof(ret_info->uuid));
	memcpy(ret_info->nguid, info->nguid, sizeof(ret_info->nguid));
	memcpy(ret_info->serial, info->serial, sizeof(info->serial));
	memcpy(ret_info->model, info->model, sizeof(info->model));
	memcpy(ret_info->firmware, info->firmware, sizeof(info->firmware));
	pthread_mutex_unlock(&volume->lock);
	return 0;
}

const char *rblk_version(void)
{
	return RBLK_VERSION;
}

void rblk_free(void *pointer)
{
	free(pointer);
}
