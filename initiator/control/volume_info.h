/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts about the namespace of a volume, and its needs of the device: limits, memory, windows.
 * Control loop only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/addr.h"
#include "initiator/io/lane_impl.h"

struct error;
struct path;
struct volume;
struct volume_config;

enum {
	VOLUME_BY_PATH_MAX = ADDR_STRING_MAX + 8,
};

/* Registered memory of a queue for its I/O. */
size_t volume_slab_bytes(const struct volume_config *config);
/* Fills in what a lane may do in the association of its path, which is live now. */
void volume_fill_limits(const struct path *path, struct lane_limits *limits);
/* The number of queues of front ends, connected or not. */
unsigned volume_n_queues(const struct volume *volume);
/* 0: there are none. */
unsigned volume_highest_qid(const struct volume *volume);
/* Takes over what the controller found out; true when front ends must be notified. */
bool volume_learn(struct volume *volume, const struct path *path);
/* 0, or -errno with *error: the memory of all queues cannot be registered. */
int volume_try_memory(struct volume *volume, const struct path *path, struct error *error);
/* 0, or -errno with *error: the device has not as many memory windows as all queues want. */
int volume_check_windows(const struct path *path, struct error *error);
unsigned volume_n_paths(const struct volume *volume);
unsigned volume_n_paths_live(const struct volume *volume);
/* The one that is live and has the best ANA state; NULL: none. */
struct path *volume_best_path(const struct volume *volume);
/* How well the path serves I/O. */
enum lane_rank volume_rank(const struct path *path);
/* A path's name in log records, where there are several: "by ADDRESS", else "". */
const char *volume_by_path(const struct path *path, char text[VOLUME_BY_PATH_MAX]);
