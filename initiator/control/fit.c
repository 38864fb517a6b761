/* SPDX-License-Identifier: BSD-3-Clause */
/* See fit.h. */
#include <errno.h>
#include <string.h>

#include "initiator/control/controller.h"
#include "initiator/control/fit.h"
#include "initiator/control/path.h"
#include "initiator/control/volume_impl.h"
#include "initiator/control/volume_info.h"

static const struct difference ids_differ = {
	"its identifier is another one",
	"its identifier has changed; ram has a new one whenever it begins empty"};
static const struct difference serials_differ = {"its subsystem has another serial number",
						 "the controller's serial number has changed"};
static const struct difference blocks_differ = {"its block size is another one",
						"its block size has changed"};
static const struct difference is_smaller = {"it is smaller", "it has become smaller"};
static const struct difference is_larger = {"it is larger", "it has become larger"};

const struct difference *fit_find_difference(const struct path *path)
{
	const struct volume *volume = path->volume;
	const struct controller *c = &path->controller;

	if (!identify_ids_match(&volume->ids, &c->ids))
		return &ids_differ;
	if (identify_ids_are_empty(&volume->ids) && strcmp(volume->info.serial, c->id.serial) != 0)
		return &serials_differ;
	if (volume->info.block_size != 1u << c->ns.block_shift)
		return &blocks_differ;
	return NULL;
}

const struct difference *fit_find_other_size(const struct path *path)
{
	const struct volume *volume = path->volume;
	const struct controller *c = &path->controller;
	uint64_t n_bytes = c->ns.n_blocks << c->ns.block_shift;

	if (n_bytes < volume->info.size_bytes)
		return &is_smaller;
	return n_bytes > volume->info.size_bytes && volume_n_paths_live(volume) ? &is_larger : NULL;
}

void fit_set_error(struct path *path, const struct difference *difference)
{
	const struct volume_config *config = &path->volume->config;
	char address[ADDR_STRING_MAX];

	if (path->live_since_ns)
		error_set(
			&path->last_error, EXIT_FAILED,
			"detach it, and attach it again if it is the right one",
			"the contents of namespace %u of '%.80s' are not those that were attached: %s",
			config->nsid, config->subnqn, difference->has_changed);
	else
		error_set(&path->last_error, EXIT_FAILED,
			  "each path must lead to one namespace, with the same uuid and size",
			  "namespace %u of '%.80s' at %s is not the one that was attached: %s",
			  config->nsid, config->subnqn, addr_format(address, &path->config.address),
			  difference->is_another);
}

/* Ids are unique in a subsystem, and proof relies on that. */
static bool has_id_of_another(const struct path *path)
{
	for_each_path(other, path->volume) if (other != path && other->phase == PATH_LIVE &&
					       other->controller.cntlid ==
						       path->controller.cntlid) return true;
	return false;
}

int fit_check(struct path *path)
{
	struct volume *volume = path->volume;
	const struct controller *c = &path->controller;
	unsigned n_needed = volume_highest_qid(volume);
	char by[VOLUME_BY_PATH_MAX];

	volume_by_path(path, by);
	if (c->n_queues_granted < n_needed) {
		error_set(&path->last_error, EXIT_FAILED, NULL,
			  "target grants %u I/O queues%s, and %u are in use", c->n_queues_granted,
			  by, n_needed);
		return -EUSERS;
	}
	if (has_id_of_another(path)) {
		error_set(&path->last_error, EXIT_FAILED,
			  "give each target of the subsystem controller_ids of its own",
			  "two targets of '%.80s' give the same controller id, %u%s",
			  volume->config.subnqn, c->cntlid, by);
		return -EEXIST;
	}
	return volume_check_windows(path, &path->last_error);
}
