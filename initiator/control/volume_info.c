/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/bits.h"
#include "base/check.h"
#include "initiator/control/path_impl.h"
#include "initiator/control/volume_impl.h"
#include "initiator/control/volume_info.h"
#include "initiator/io/queue_impl.h"

enum {
	SLAB_SHARE = 4, /* one I/O takes at most this part of the slab */
};
#define QUEUE_EXTRA	(64 * KIB) /* receives, authentication */
#define ZERO_BLOCKS_MAX 65536u	   /* NLB has 16 bits, 0's based */
#define TRIM_BLOCKS_MAX 0xffffffffu

size_t volume_slab_bytes(const struct volume_config *config)
{
	return align_up(MAX(config->slab_bytes, (uint64_t)VOLUME_SLAB_MIN), SLAB_UNIT);
}

unsigned volume_n_queues(const struct volume *volume)
{
	return (unsigned)__builtin_popcountll(volume->used_qids);
}

/* The largest single read or write. A size once promised to front ends stays: io.c splits. */
static uint32_t max_io_bytes(const struct volume *volume, const struct path *path)
{
	uint64_t share = volume_slab_bytes(&volume->config) / SLAB_SHARE;

	if (volume->info.max_io_bytes)
		return volume->info.max_io_bytes;
	return (uint32_t)MIN((uint64_t)path->controller.id.max_transfer_bytes,
			     1ull << log2_floor(share));
}

unsigned volume_highest_qid(const struct volume *volume)
{
	return volume->used_qids ? log2_floor(volume->used_qids) + 1 : 0;
}

/* A queue has a lane in each path, so each must grant it. A path that grants fewer than are in use
 * is not taken (reconnect.c), so those that are live grant all of those. */
static unsigned n_granted(const struct volume *volume, const struct path *newest)
{
	unsigned n = newest->controller.n_queues_granted;

	for_each_path(path, volume) if (path->phase == PATH_LIVE)
		n = MIN(n, path->controller.n_queues_granted);
	return n;
}

/* The longest Compare and Write; 0: there is none. */
static uint32_t max_compare_bytes(const struct controller *c)
{
	uint32_t n = c->ns.max_compare_blocks ? c->ns.max_compare_blocks : c->id.max_compare_blocks;

	if (!c->id.max_compare_blocks)
		return 0;
	return (uint32_t)MIN((uint64_t)n << c->ns.block_shift, (uint64_t)c->id.max_transfer_bytes);
}

/* Takes the abilities that all live paths of the volume have. */
static void take_common(const struct volume *volume, struct volume_info *info)
{
	for_each_path(path, volume)
	{
		const struct controller *c = &path->controller;

		if (path->phase != PATH_LIVE)
			continue;
		info->size_bytes = MIN(info->size_bytes, c->ns.n_blocks << c->ns.block_shift);
		info->max_compare_bytes = MIN(info->max_compare_bytes, max_compare_bytes(c));
		info->is_read_only |= c->ns.is_read_only;
		info->has_flush |= c->id.has_volatile_cache;
		info->has_write_zeroes &= c->id.has_write_zeroes;
		info->has_trim &= c->id.has_trim;
		info->reads_zero_after_trim &= c->ns.reads_zero_after_trim;
	}
}

bool volume_learn(struct volume *volume, const struct path *path)
{
	const struct controller *c = &path->controller;
	struct volume_info info = {
		.size_bytes = c->ns.n_blocks << c->ns.block_shift,
		.block_size = 1u << c->ns.block_shift,
		.slab_bytes = volume_slab_bytes(&volume->config),
		.max_io_bytes = max_io_bytes(volume, path),
		.max_transfer_bytes = c->id.max_transfer_bytes,
		.max_compare_bytes = max_compare_bytes(c),
		.is_read_only = c->ns.is_read_only,
		.has_flush = c->id.has_volatile_cache,
		.has_write_zeroes = c->id.has_write_zeroes,
		.has_trim = c->id.has_trim,
		.reads_zero_after_trim = c->ns.reads_zero_after_trim,
		.n_queues_granted = n_granted(volume, path),
	};
	const struct volume_info *old = &volume->info;
	bool has_changed;

	take_common(volume, &info);
	has_changed = old->size_bytes != info.size_bytes ||
		      old->is_read_only != info.is_read_only || old->has_trim != info.has_trim ||
		      old->has_write_zeroes != info.has_write_zeroes ||
		      old->max_compare_bytes != info.max_compare_bytes;
	memcpy(info.uuid, c->ids.uuid, sizeof(info.uuid));
	memcpy(info.nguid, c->ids.nguid, sizeof(info.nguid));
	memcpy(info.serial, c->id.serial, sizeof(info.serial));
	memcpy(info.model, c->id.model, sizeof(info.model));
	memcpy(info.firmware, c->id.firmware, sizeof(info.firmware));
	volume->info = info;
	return has_changed;
}

void volume_fill_limits(const struct path *path, struct lane_limits *limits)
{
	const struct volume *volume = path->volume;
	const struct controller *c = &path->controller;
	uint64_t zero_blocks = c->limits.max_zero_bytes >> c->ns.block_shift;
	uint64_t trim_blocks = c->limits.max_trim_blocks;

	check(path->phase == PATH_LIVE);
	limits->path = path->index;
	limits->nsid = volume->config.nsid;
	limits->cntlid = c->cntlid;
	limits->serial = path->serial;
	limits->block_shift = c->ns.block_shift;
	limits->max_transfer = c->id.max_transfer_bytes;
	limits->in_capsule_bytes = c->id.in_capsule_bytes;
	limits->max_zero_blocks = zero_blocks ? MIN(zero_blocks, ZERO_BLOCKS_MAX) : ZERO_BLOCKS_MAX;
	limits->max_trim_blocks = trim_blocks ? MIN(trim_blocks, TRIM_BLOCKS_MAX) : TRIM_BLOCKS_MAX;
	limits->max_compare_bytes = max_compare_bytes(c);
	limits->has_windows = volume->config.has_windows;
	limits->has_zero = c->id.has_write_zeroes;
	limits->has_trim = c->id.has_trim;
	limits->can_unmap_zeroes = c->ns.can_unmap_zeroes;
}

int volume_check_windows(const struct path *path, struct error *error)
{
	const struct volume *volume = path->volume;
	const struct device *device = path->controller.domain.device;
	unsigned n_queues = path->controller.n_queues_granted;
	unsigned n = n_queues * volume->config.queue_size * COMMANDS_PER_ENTRY;

	if (!volume->config.has_windows || n <= device->limits.max_windows)
		return 0;
	if (!device->limits.max_windows)
		error_set(error, EXIT_FAILED, "attach without --memory-windows",
			  "%s has no memory windows of type 2", device->name);
	else
		error_set(error, EXIT_FAILED, "take fewer --queues or a smaller --queue-size",
			  "%s has %u memory windows, but %u queues of %u entries need %u",
			  device->name, device->limits.max_windows, n_queues,
			  volume->config.queue_size, n);
	return -EOPNOTSUPP;
}

/* Whether the limit of locked memory binds depends on privileges and on the device, so the device
 * is asked. One page more than the limit tells as much as all of n_bytes would, and huge pages cost
 * an eighth of the time of small ones. */
static int try_memory(const struct path *path, size_t n_bytes)
{
	void *memory;
	struct mr mr = {0};
	int r = -ENOMEM;

	if (mr_limit_has_room(n_bytes))
		return 0;
	n_bytes = MIN(n_bytes, mr_limit_bytes() + SLAB_UNIT);
	memory = slab_map(n_bytes);
	if (memory)
		madvise(memory, n_bytes, MADV_HUGEPAGE);
	if (memory)
		r = mr_open(&path->controller.domain, memory, n_bytes, MR_LOCAL, &mr);
	mr_close(&mr);
	slab_unmap(memory, n_bytes);
	return r;
}

/* The slabs of all queues, and what else they register: with each path. */
static size_t all_memory(const struct volume *volume, const struct path *path)
{
	const struct volume_config *config = &volume->config;

	return (volume_slab_bytes(config) +
		command_table_bytes(config->queue_size * COMMANDS_PER_ENTRY) + QUEUE_EXTRA) *
	       path->controller.n_queues_granted * volume_n_paths(volume);
}

static bool can_shrink(const struct volume *volume)
{
	struct rlimit limit;

	return volume->config.may_shrink_slab &&
	       volume->config.slab_bytes > (uint64_t)VOLUME_SLAB_MIN &&
	       getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* Whether all queues together can register what they may need: so attaching reports a limit on
 * locked memory, and not a connection later on. */
int volume_try_memory(struct volume *volume, const struct path *path, struct error *error)
{
	char text[160], hint[256];
	const char *how;
	int r;

	while ((r = try_memory(path, all_memory(volume, path))) == -ENOMEM && can_shrink(volume))
		volume->config.slab_bytes = MAX(volume->config.slab_bytes / 2,
						(uint64_t)VOLUME_SLAB_MIN);
	if (r < 0) {
		how = mr_explain(r, all_memory(volume, path), text, sizeof(text));
		snprintf(hint, sizeof(hint), "%s%s", how,
			 *how ? "; or take less memory: --buffers, --queues" : "");
		error_set(error, EXIT_PRIVILEGE, hint, "%s", text);
	}
	return r;
}

/* ---- paths ---- */

unsigned volume_n_paths(const struct volume *volume)
{
	unsigned n = 0;

	for_each_path(path, volume) n++;
	return n;
}

unsigned volume_n_paths_live(const struct volume *volume)
{
	unsigned n = 0;

	for_each_path(path, volume) n += path->phase == PATH_LIVE;
	return n;
}

static enum lane_rank rank_by_ana(const struct path *path)
{
	switch (path->controller.ana_state) {
	case NVME_ANA_STATE_INACCESSIBLE:
	case NVME_ANA_STATE_PERSISTENT_LOSS:
	case NVME_ANA_STATE_CHANGE:
		return LANE_RANK_NONE;
	case NVME_ANA_STATE_NON_OPTIMIZED:
		return LANE_RANK_POOR;
	}
	return LANE_RANK_BEST;
}

enum lane_rank volume_rank(const struct path *path)
{
	enum lane_rank rank = rank_by_ana(path);

	return path->wish == PATH_WISH_KEEP ? rank : MIN(rank, LANE_RANK_LAST);
}

struct path *volume_best_path(const struct volume *volume)
{
	struct path *best = NULL;

	for_each_path(path, volume) if (path->phase == PATH_LIVE &&
					(!best || volume_rank(path) > volume_rank(best)))
		best = path;
	return best;
}

const char *volume_by_path(const struct path *path, char text[VOLUME_BY_PATH_MAX])
{
	char address[ADDR_STRING_MAX];

	text[0] = '\0';
	if (volume_n_paths(path->volume) > 1)
		snprintf(text, VOLUME_BY_PATH_MAX, " by %s",
			 addr_format(address, &path->config.address));
	return text;
}
