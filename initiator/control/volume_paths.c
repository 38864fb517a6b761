/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The paths of a volume, and their lanes in each queue: made, added, removed. Control loop only.
 *
 * A path that is added connects as the others do (path.c), and its namespace is compared with the
 * one that is attached. A path is removed in order, so that no I/O notices:
 *
 *   leave   new I/O takes other paths, as long as a queue has one (choose.c)
 *   go      refused until no command is in flight on it, and what it has acknowledged is flushed:
 *           a Flush by another path would not cover that (io_flush.c)
 *   gone    the association is shut down, its lanes and the path are freed
 *
 * A path that is not live goes at once. Its I/O in flight waits for proof, as after any loss,
 * unless an administrator vouches that its target is dead. One that discovery removes stays until
 * there is proof, and a Flush.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "initiator/control/declined.h"
#include "initiator/control/connection.h"
#include "initiator/control/path.h"
#include "initiator/control/proof.h"
#include "initiator/control/proof_file.h"
#include "initiator/control/reconnect.h"
#include "initiator/control/volume_impl.h"
#include "initiator/control/volume_info.h"
#include "initiator/control/volume_paths.h"
#include "initiator/io/lane.h"
#include "initiator/io/queue_impl.h"

/* ---- lanes ---- */

int volume_make_lane(struct volume_queue *queue, struct path *path)
{
	const struct volume_config *config = &queue->volume->config;
	const struct lane_config lane_config = {
		.path = path,
		.queue = queue,
		.n_entries = config->queue_size,
		.io_timeout_ns = config->io_timeout_ns,
		.is_watched = config->keep_alive_ns &&
			      config->keep_alive_ns <= config->io_timeout_ns,
		.on_attached = connection_on_attached,
		.on_connected = connection_on_connected,
		.on_failed = connection_on_failed,
		.on_stopped = connection_on_stopped,
	};
	struct connection *connection = calloc(1, sizeof(*connection));
	struct lane *lane;
	int r = connection ? lane_new(&lane_config, &lane) : -ENOMEM;

	if (r < 0) {
		free(connection);
		return r;
	}
	connection->lane = lane;
	connection->ops = &path_connection_ops;
	lane->connection = connection;
	atomic_store(&lane->wanted_rank, volume_rank(path));
	queue->lanes[path->index] = lane;
	return 0;
}

void volume_free_lane(struct volume_queue *queue, struct path *path)
{
	struct volume *volume = queue->volume;
	struct lane *lane = queue->lanes[path->index];

	if (!lane)
		return;
	volume->n_invalidated += atomic_load(&lane->n_invalidated);
	volume->n_revoked += atomic_load(&lane->n_revoked);
	path->n_answered += command_n_answered(&lane->table);
	queue->lanes[path->index] = NULL;
	free(lane->connection);
	lane_free(lane);
}

static void free_lanes(struct path *path)
{
	list_for_each (node, &path->volume->queues)
		volume_free_lane(list_entry(node, struct volume_queue, node), path);
}

static int make_lanes(struct path *path)
{
	int r = 0;

	list_for_each (node, &path->volume->queues) {
		r = volume_make_lane(list_entry(node, struct volume_queue, node), path);
		if (r < 0)
			break;
	}
	if (r < 0)
		free_lanes(path);
	return r;
}

/* ---- paths ---- */

static void free_path(struct path *path)
{
	path_deinit(path);
	path->volume->paths[path->index] = NULL;
	free(path);
}

bool volume_path_has_unflushed(const struct path *path)
{
	const struct unflushed *unflushed = &path->volume->unflushed;

	return !unflushed_is_covered(unflushed, path->index,
				     unflushed_number(unflushed, path->index));
}

/* IDLE, and no attempt follows. */
static void on_gone(struct loop_call *call)
{
	struct path *path = container_of(call, struct path, gone_call);
	struct volume *volume = path->volume;
	char address[ADDR_STRING_MAX];

	if (volume_path_has_unflushed(path))
		log_warn(
			VOLUME_FMT
			": %s had acknowledged writes that were not flushed, and is no path any more",
			VOLUME_ARG(volume), addr_format(address, &path->config.address));
	free_lanes(path);
	free_path(path);
	proof_file_write(volume);
}

static const union addr named; /* as found_at */

static int new_path(struct volume *volume, unsigned index, const union addr *address,
		    const union addr *found_at, struct path **ret_path)
{
	struct path *path = calloc(1, sizeof(*path));

	if (!path)
		return -ENOMEM;
	path_init(path, volume, index, address, &reconnect_path_ops);
	path->found_at = *found_at;
	path->gone_call.run = on_gone;
	volume->paths[index] = path;
	*ret_path = path;
	return 0;
}

int volume_make_paths(struct volume *volume)
{
	const struct volume_config *config = &volume->config;
	struct path *path;
	int r = new_path(volume, 0, &config->address, &named, &path);

	for (unsigned i = 0; i < config->n_others && r == 0; i++)
		r = new_path(volume, i + 1, &config->others[i], &config->others_found_at[i], &path);
	return r;
}

void volume_free_paths(struct volume *volume)
{
	for_each_path(path, volume) free_path(path);
}

struct path *volume_path_find(const struct volume *volume, const union addr *address)
{
	for_each_path(path, volume) if (addr_is_equal(&path->config.address, address)) return path;
	return NULL;
}

/* ---- adding ---- */

static int free_index(const struct volume *volume)
{
	for (int i = 0; i < VOLUME_PATHS_MAX; i++)
		if (!volume->paths[i])
			return i;
	return -ENOSPC;
}

static int add(struct volume *volume, unsigned index, const union addr *address,
	       const union addr *found_at)
{
	struct path *path;
	int r = new_path(volume, index, address, found_at, &path);

	if (r < 0)
		return r;
	r = make_lanes(path);
	if (r < 0) {
		free_path(path);
		return r;
	}
	unflushed_forget(&volume->unflushed, index);
	reconnect_add(path);
	return 0;
}

int volume_path_add_found(struct volume *volume, const union addr *address,
			  const union addr *found_at, struct error *error)
{
	char text[ADDR_STRING_MAX];
	int index = free_index(volume), r;

	addr_format(text, address);
	if (volume_is_opening(volume) || volume->phase == PHASE_CLOSING) {
		error_set(error, EXIT_BUSY, "try again when it is attached",
			  "the volume is being opened or closed");
		return -EAGAIN;
	}
	if (volume_path_find(volume, address)) {
		error_set(error, EXIT_USAGE, "see `rblk status`", "%s is a path of it already",
			  text);
		return -EEXIST;
	}
	if (index < 0) {
		error_set(error, EXIT_USAGE, "remove one first", "it has %u paths, the most",
			  VOLUME_PATHS_MAX);
		return index;
	}
	r = add(volume, (unsigned)index, address, found_at);
	if (r < 0)
		error_set(error, EXIT_FAILED, NULL, "cannot add %s: %s", text, strerror(-r));
	return r;
}

int volume_path_add(struct volume *volume, const union addr *address, struct error *error)
{
	int r = volume_path_add_found(volume, address, &named, error);

	if (r == 0)
		declined_remove(&volume->discovery.declined, address);
	return r;
}

/* ---- removing ---- */

static bool has_other(const struct volume *volume, const struct path *path)
{
	for_each_path(other, volume) if (other != path && other->phase == PATH_LIVE &&
					 volume_rank(other) > LANE_RANK_LAST) return true;
	return false;
}

/* 0, or -errno with *error. */
static int check_leave(const struct volume *volume, const struct path *path, bool is_dead,
		       const char *address, struct error *error)
{
	if (!path) {
		error_set(error, EXIT_USAGE, "see `rblk status`", "%s is no path of it", address);
		return -ENOENT;
	}
	if (is_dead && path->phase == PATH_LIVE) {
		error_set(error, EXIT_USAGE, "remove it without --dead",
			  "%s is not dead: it is live", address);
		return -EISCONN;
	}
	if (has_other(volume, path))
		return 0;
	error_set(error, EXIT_BUSY, "add another first, by `rblk path add`",
		  "%s is the only path that can serve I/O, or could again", address);
	return -EBUSY;
}

static void begin_leave(struct path *path)
{
	if (path->wish != PATH_WISH_KEEP)
		return;
	path->wish = PATH_WISH_LEAVE;
	reconnect_set_ranks(path);
}

static void vouch(struct volume *volume, const union addr *address)
{
	char text[ADDR_STRING_MAX];

	log_warn(VOLUME_FMT ": an administrator vouches that the target at %s is dead",
		 VOLUME_ARG(volume), addr_format(text, address));
	proof_vouch(volume, address);
}

int volume_path_leave(struct volume *volume, const union addr *address, bool is_dead,
		      struct error *error)
{
	struct path *path = volume_path_find(volume, address);
	char text[ADDR_STRING_MAX];
	int r = 0;

	/* An earlier process, or one that was removed, had this path: only its end is unknown. */
	if (!path && is_dead && proof_awaits(volume, address)) {
		vouch(volume, address);
		return 0;
	}
	r = check_leave(volume, path, is_dead, addr_format(text, address), error);
	if (r < 0)
		return r;
	begin_leave(path);
	path->found_at = named; /* it goes whatever discovery says, and does not come back by it */
	declined_add(&volume->discovery.declined, address);
	if (is_dead)
		vouch(volume, address);
	return 0;
}

/* Whether a path that discovery removes leaves no writes without proof, or without a Flush. */
static bool is_proven(const struct path *path)
{
	return !proof_awaits(path->volume, &path->config.address) &&
	       (path->phase == PATH_LIVE || !volume_path_has_unflushed(path));
}

int volume_path_leave_found(struct path *path)
{
	struct volume *volume = path->volume;

	if (!has_other(volume, path) || !is_proven(path))
		return -EBUSY;
	begin_leave(path);
	if (volume->callbacks.on_path)
		volume->callbacks.on_path(volume->context);
	return 0;
}

bool volume_path_leaving(const struct volume *volume, union addr *ret_address)
{
	for_each_path(path, volume)
	{
		if (path->wish != PATH_WISH_LEAVE)
			continue;
		*ret_address = path->config.address;
		return true;
	}
	return false;
}

/* Nothing is sent by the lane, nor will be. */
static bool is_quiet(const struct volume_queue *queue, const struct lane *lane)
{
	if (lane->connection->state != CONNECTION_LIVE)
		return true;
	for (unsigned i = 0; i < VOLUME_PATHS_MAX; i++) {
		const struct lane *other = queue->lanes[i];

		if (other && other != lane && other->connection->state == CONNECTION_LIVE &&
		    atomic_load(&other->seen_rank) > LANE_RANK_LAST)
			return atomic_load(&lane->seen_rank) <= LANE_RANK_LAST &&
			       !atomic_load(&lane->seen_in_flight);
	}
	return false;
}

static bool are_quiet(const struct path *path)
{
	list_for_each (node, &path->volume->queues) {
		const struct volume_queue *queue = list_entry(node, struct volume_queue, node);

		if (!is_quiet(queue, queue->lanes[path->index]))
			return false;
	}
	return true;
}

/* It was lost, or the others were, while it left by discovery. */
static void stay(struct path *path)
{
	path->wish = PATH_WISH_KEEP;
	reconnect_set_ranks(path);
}

enum volume_departure volume_path_go(struct volume *volume, const union addr *address)
{
	struct path *path = volume_path_find(volume, address);

	if (!path)
		return DEPARTURE_DONE;
	if (path->wish == PATH_WISH_GO)
		return DEPARTURE_UNDER_WAY;
	if (path->phase == PATH_LIVE && !are_quiet(path))
		return DEPARTURE_WAITS;
	if (path_is_found(path) && !(has_other(volume, path) && is_proven(path))) {
		stay(path);
		return DEPARTURE_DONE;
	}
	if (path->phase == PATH_LIVE && volume_path_has_unflushed(path))
		return DEPARTURE_WANTS_FLUSH;
	path->wish = PATH_WISH_GO;
	if (path->phase == PATH_IDLE)
		loop_defer(volume->control, &path->gone_call);
	else
		path_remove(path);
	return DEPARTURE_UNDER_WAY;
}
