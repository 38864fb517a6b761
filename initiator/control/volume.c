/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public face of a volume: open, close, queues, status. Control loop only.
 *
 * volume_open makes the volume and lets reconnect.c connect it; front ends then add a
 * queue for each of their I/O loops. Removing a queue takes it off the target (connection.c),
 * then off its loop (the quit message), and frees it. volume_close is the last call:
 * normal shutdown of the controller, everything undone, on_closed.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/capture.h"
#include "base/check.h"
#include "base/clock.h"
#include "initiator/control/errors.h"
#include "initiator/control/connection.h"
#include "initiator/control/connection_memory.h"
#include "initiator/control/memory.h"
#include "initiator/control/path.h"
#include "initiator/control/path_impl.h"
#include "initiator/control/proof.h"
#include "initiator/control/proof_status.h"
#include "initiator/control/reconnect.h"
#include "initiator/control/volume.h"
#include "initiator/control/volume_discovery.h"
#include "initiator/control/volume_impl.h"
#include "initiator/control/volume_info.h"
#include "initiator/control/volume_paths.h"
#include "initiator/io/queue.h"
#include "transport/wire/strings.h"

static_assert(VOLUME_QUEUES_MAX <= 64, "used_qids has a bit for each");

#define RECONNECT_DELAY_MIN_NS (10 * NSEC_PER_MSEC)
#define KEEP_ALIVE_MIN_NS      (100 * NSEC_PER_MSEC)

const char *volume_state_name(enum volume_state state)
{
	switch (state) {
	case VOLUME_CONNECTING:
		return "connecting";
	case VOLUME_LIVE:
		return "live";
	case VOLUME_RECONNECTING:
		return "reconnecting";
	case VOLUME_DENIED:
		return "denied";
	case VOLUME_GONE:
		return "gone";
	case VOLUME_FAILED:
		return "failed";
	case VOLUME_CLOSING:
		return "closing";
	}
	return "unknown";
}

/* ---- open and close ---- */

static bool is_valid(const struct volume_config *config)
{
	return config->subnqn[0] && config->hostnqn[0] && config->nsid &&
	       config->address.sa.sa_family && config->n_others < VOLUME_PATHS_MAX &&
	       config->n_queues >= 1 && config->n_queues <= VOLUME_QUEUES_MAX &&
	       config->queue_size >= VOLUME_QUEUE_SIZE_MIN &&
	       config->queue_size <= VOLUME_QUEUE_SIZE_MAX && config->io_timeout_ns;
}

static void free_volume(struct volume *volume)
{
	volume_free_paths(volume);
	cm_free(volume->cm);
	volume_io_errors_deinit(&volume->io_errors);
	memories_deinit(&volume->memories);
	free(volume);
}

/* The last call of reconnect.c: nothing of the volume is used any more. */
static void on_over(struct volume *volume)
{
	struct volume_callbacks callbacks = volume->callbacks;
	void *context = volume->context;

	free_volume(volume);
	callbacks.on_closed(context);
}

int volume_open(struct loop *control, const struct volume_config *config,
		const struct volume_callbacks *callbacks, void *context, struct volume **ret_volume)
{
	struct volume *volume;
	int r;

	if (!is_valid(config))
		return -EINVAL;
	volume = calloc(1, sizeof(*volume));
	if (!volume)
		return -ENOMEM;
	volume->control = control;
	volume->config = *config;
	volume->config.reconnect_delay_ns = MAX(config->reconnect_delay_ns, RECONNECT_DELAY_MIN_NS);
	if (config->keep_alive_ns)
		volume->config.keep_alive_ns = MAX(config->keep_alive_ns, KEEP_ALIVE_MIN_NS);
	volume->callbacks = *callbacks;
	volume->context = context;
	volume_io_errors_init(&volume->io_errors, config->subnqn, config->nsid);
	unflushed_init(&volume->unflushed);
	memories_init(&volume->memories, config->has_windows);
	list_init(&volume->queues);
	list_init(&volume->extents_waiting);
	r = cm_new(control, &volume->cm);
	if (r == 0)
		r = volume_make_paths(volume);
	if (r < 0) {
		free_volume(volume);
		return r;
	}
	volume->on_over = on_over;
	volume->on_serving = volume_discovery_begin;
	reconnect_open(volume);
	*ret_volume = volume;
	return 0;
}

void volume_close(struct volume *volume)
{
	check(list_is_empty(&volume->queues));
	volume_discovery_end(volume);
	reconnect_close(volume);
}

int volume_reopen(struct volume *volume)
{
	return reconnect_reopen(volume);
}

/* ---- what is known ---- */

void volume_get_info(const struct volume *volume, struct volume_info *ret_info)
{
	*ret_info = volume->info;
}

static uint64_t gives_up_in_ns(const struct volume *volume)
{
	uint64_t elapsed = clock_ns() - volume->lost_ns;

	if (!volume_state_holds(reconnect_state(volume)) ||
	    volume->config.ctrl_loss_tmo_ns == UINT64_MAX)
		return UINT64_MAX;
	return volume->config.ctrl_loss_tmo_ns > elapsed ? volume->config.ctrl_loss_tmo_ns - elapsed
							 : 0;
}

const char *volume_path_state_name(enum volume_path_state state)
{
	static const char *const names[] = {
		[VOLUME_PATH_IDLE] = "idle",	   [VOLUME_PATH_CONNECTING] = "connecting",
		[VOLUME_PATH_LIVE] = "live",	   [VOLUME_PATH_LOST] = "lost",
		[VOLUME_PATH_DENIED] = "denied",   [VOLUME_PATH_GONE] = "gone",
		[VOLUME_PATH_OTHER] = "other",	   [VOLUME_PATH_UNFIT] = "unfit",
		[VOLUME_PATH_LEAVING] = "leaving",
	};

	return names[state];
}

static enum volume_path_state path_state(const struct path *path)
{
	static const enum volume_path_state obstacles[] = {
		[OBSTACLE_NONE] = VOLUME_PATH_LOST,   [OBSTACLE_DENIED] = VOLUME_PATH_DENIED,
		[OBSTACLE_GONE] = VOLUME_PATH_GONE,   [OBSTACLE_OTHER] = VOLUME_PATH_OTHER,
		[OBSTACLE_UNFIT] = VOLUME_PATH_UNFIT,
	};

	if (path->wish != PATH_WISH_KEEP)
		return VOLUME_PATH_LEAVING;
	switch (path->phase) {
	case PATH_LIVE:
		return VOLUME_PATH_LIVE;
	case PATH_IDLE:
		return path->obstacle ? obstacles[path->obstacle] : VOLUME_PATH_IDLE;
	case PATH_WAITING:
	case PATH_CONNECTING:
	case PATH_RESETTING:
		break;
	}
	return path->obstacle || path->lost_ns ? obstacles[path->obstacle] : VOLUME_PATH_CONNECTING;
}

static void get_path(struct path *path, struct volume_path_status *status)
{
	const struct controller *c = &path->controller;
	const struct path *best = volume_best_path(path->volume);
	uint64_t sum_ns = 0, n_paces = 0, pace_ns;

	*status = (struct volume_path_status){
		.address = path->config.address,
		.is_found = path_is_found(path),
		.state = path_state(path),
		.state_since_ns = path->phase_since_ns,
		.is_used = path->phase == PATH_LIVE && volume_rank(path) == volume_rank(best),
		.ana_state = c->ana_state && path->phase == PATH_LIVE
				     ? nvme_ana_state_string(c->ana_state)
				     : NULL,
		.cntlid = c->cntlid,
		.n_commands = path->n_answered,
		.n_losses = path->n_lost,
		.has_unflushed = volume_path_has_unflushed(path),
		.last_error = path->last_error,
	};
	if (c->domain.device)
		memcpy(status->device, c->domain.device->name, sizeof(status->device));
	list_for_each (node, &path->volume->queues) {
		const struct lane *lane =
			list_entry(node, struct volume_queue, node)->lanes[path->index];

		if (!lane)
			continue;
		status->n_queues_live += lane->connection->state == CONNECTION_LIVE;
		status->n_in_flight += atomic_load_explicit(&lane->seen_in_flight,
							    memory_order_relaxed);
		status->n_commands += command_n_answered(&lane->table);
		pace_ns = atomic_load_explicit(&lane->seen_pace_ns, memory_order_relaxed);
		sum_ns += pace_ns;
		n_paces += pace_ns > 0;
	}
	status->latency_ns = n_paces ? sum_ns / n_paces : 0;
	status->wants_queues = path->phase == PATH_RESETTING || path->wish != PATH_WISH_KEEP ||
			       (path->phase == PATH_LIVE &&
				status->n_queues_live < volume_n_queues(path->volume));
}

static void get_lanes(const struct volume_queue *queue, struct volume_status *status)
{
	for (unsigned i = 0; i < VOLUME_PATHS_MAX; i++) {
		const struct lane *lane = queue->lanes[i];

		if (!lane)
			continue;
		status->n_invalidated += atomic_load_explicit(&lane->n_invalidated,
							      memory_order_relaxed);
		status->n_revoked += atomic_load_explicit(&lane->n_revoked, memory_order_relaxed);
	}
}

/* A queue is live if any of its lanes is. */
static bool is_live(const struct volume_queue *queue)
{
	for (unsigned i = 0; i < VOLUME_PATHS_MAX; i++)
		if (queue->lanes[i] && queue->lanes[i]->connection->state == CONNECTION_LIVE)
			return true;
	return false;
}

/* The path of which the status of a volume tells: the best, or the one that was tried first. */
static const struct path *path_to_tell(const struct volume *volume)
{
	const struct path *best = volume_best_path(volume);

	for_each_path(path, volume) best = best ?: path;
	return best;
}

void volume_get_status(struct volume *volume, struct volume_status *ret_status)
{
	const struct controller *c = &path_to_tell(volume)->controller;
	struct volume_status status = {
		.state = reconnect_state(volume),
		.state_since_ns = volume->state_since_ns,
		.n_reconnects = volume->n_reconnects,
		.n_invalidated = volume->n_invalidated,
		.n_revoked = volume->n_revoked,
		.gives_up_in_ns = gives_up_in_ns(volume),
		.cntlid = c->cntlid,
		.last_error = volume->last_error,
		.n_paths_live = volume_n_paths_live(volume),
	};

	volume_io_errors_read(&volume->io_errors, &status.io_errors);
	proof_get(volume, &status.fencing);
	status.n_services = volume_discovery_get(volume, status.services);
	if (c->ana_state) {
		status.ana_state = nvme_ana_state_string(c->ana_state);
		status.ana_group = c->ns.ana_group;
	}
	for_each_path(path, volume)
	{
		get_path(path, &status.paths[status.n_paths]);
		status.n_in_flight += status.paths[status.n_paths].n_in_flight;
		status.has_unflushed |= status.paths[status.n_paths++].has_unflushed;
	}
	list_for_each (node, &volume->queues) {
		struct volume_queue *queue = list_entry(node, struct volume_queue, node);

		status.n_queues_live += is_live(queue);
		status.backed_bytes += slab_backed_bytes(&queue->slab);
		status.n_held += atomic_load_explicit(&queue->seen_held, memory_order_relaxed);
		get_lanes(queue, &status);
	}
	if (c->domain.device)
		memcpy(status.device, c->domain.device->name, sizeof(status.device));
	*ret_status = status;
}

void volume_get_stats(struct volume *volume, struct volume_stats *ret_stats)
{
	struct volume_io_figures errors;

	memcpy(ret_stats->of, volume->io_stats, sizeof(ret_stats->of));
	list_for_each (node, &volume->queues)
		io_stats_sum(&list_entry(node, struct volume_queue, node)->stats, ret_stats->of);
	volume_io_errors_read(&volume->io_errors, &errors);
	memset(ret_stats->n_errors, 0, sizeof(ret_stats->n_errors));
	for (unsigned op = 0; op < VOLUME_OPS; op++)
		ret_stats->n_errors[MIN(op, VOLUME_CLASS_OTHER)] += errors.counts[op];
}

/* ---- queues ---- */

static uint16_t take_qid(struct volume *volume)
{
	unsigned i = (unsigned)__builtin_ctzll(~volume->used_qids);

	check(i < VOLUME_QUEUES_MAX);
	volume->used_qids |= 1ull << i;
	return (uint16_t)(i + 1);
}

/* ---- adding and removing queues ---- */

static void free_queue(struct volume_queue *queue)
{
	for_each_path(path, queue->volume) volume_free_lane(queue, path);
	queue_free(queue);
}

static int new_lanes(struct volume_queue *queue)
{
	int r = 0;

	for_each_path(path, queue->volume) r = r < 0 ? r : volume_make_lane(queue, path);
	return r;
}

static void on_queue_quitted(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, quitted_msg);
	struct volume *volume = queue->volume;
	void (*on_removed)(void *context) = queue->on_removed;
	void *context = queue->on_removed_context;

	list_remove(&queue->node);
	io_stats_sum(&queue->stats, volume->io_stats);
	volume->used_qids &= ~(1ull << (queue->qid - 1));
	free_queue(queue);
	for_each_path(path, volume) path_on_lane_gone(path);
	if (on_removed)
		on_removed(context);
}

static int new_queue(struct volume *volume, struct loop *io_loop, uint16_t qid,
		     struct volume_queue **ret_queue)
{
	const struct volume_config *config = &volume->config;
	const struct queue_config queue_config = {
		.volume = volume,
		.control = volume->control,
		.loop = io_loop,
		.unflushed = &volume->unflushed,
		.unproven = &volume->unproven,
		.io_errors = &volume->io_errors,
		.capture = config->capture ?: &capture_none,
		.qid = qid,
		.policy = config->policy,
		.slab_bytes = volume_slab_bytes(config),
		.max_io_bytes = volume->info.max_io_bytes,
		.is_slab_whole = config->is_slab_whole,
		.retry_for_ns = config->ctrl_loss_tmo_ns,
		.block_shift = log2_floor(volume->info.block_size),
		.on_quitted = on_queue_quitted,
		.on_resize = connection_on_resize,
	};
	int r = queue_new(&queue_config, ret_queue);

	if (r < 0)
		return r;
	r = new_lanes(*ret_queue);
	if (r < 0)
		free_queue(*ret_queue);
	return r;
}

int volume_queue_add(struct volume *volume, struct loop *io_loop, struct volume_queue **ret_queue)
{
	struct volume_queue *queue;
	uint16_t qid;
	int r;

	if (volume_is_opening(volume) || volume->phase == PHASE_CLOSING)
		return -EINVAL;
	if (volume_n_queues(volume) >= volume->info.n_queues_granted)
		return -EUSERS;
	qid = take_qid(volume);
	r = new_queue(volume, io_loop, qid, &queue);
	if (r < 0) {
		volume->used_qids &= ~(1ull << (qid - 1));
		return r;
	}
	list_add_tail(&volume->queues, &queue->node);
	if (volume->outlook != OUTLOOK_HOLDS || volume->phase == PHASE_FAILED)
		queue_set_mode(queue, QUEUE_FAIL);
	for_each_path(path, volume) connection_start(queue->lanes[path->index]);
	*ret_queue = queue;
	return 0;
}

void volume_queue_remove(struct volume_queue *queue, void (*on_removed)(void *context),
			 void *context)
{
	check(!queue->is_removing);
	queue->is_removing = true;
	queue->on_removed = on_removed;
	queue->on_removed_context = context;
	connection_stop_all(queue);
}

int volume_memory_add(struct volume *volume, struct volume_memory *memory, struct error *error)
{
	return memories_add(&volume->memories, memory, error);
}

void volume_memory_remove(struct volume *volume, struct volume_memory *memory)
{
	memories_remove(&volume->memories, memory);
}
