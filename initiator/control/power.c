/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target that was restarted and one whose machine lost power look alike to a host: the connection
 * breaks, and a new one is granted. But after a loss of power, writes that were acknowledged out of
 * a volatile cache are gone. The next Flush must not succeed as if they were safe.
 *
 * With several paths the others go on meanwhile. A loss concerns writes that the lost path
 * acknowledged before its last queue pair was gone (covered_by); no Flush by another path covers
 * them. Two paths to one target hear of the same loss; the second one finds that it was reported.
 */
#include <string.h>

#include "base/log.h"
#include "initiator/control/controller_command.h"
#include "initiator/control/controller_impl.h"
#include "initiator/control/errors.h"
#include "initiator/control/path_impl.h"
#include "initiator/control/power.h"
#include "initiator/control/volume_impl.h"
#include "initiator/io/queue_impl.h"
#include "transport/wire/strings.h"

/* The low half of a 128-bit counter: no target lives to see the other one. */
static uint64_t counter(const uint8_t field[16])
{
	le64 low;

	memcpy(&low, field, sizeof(low));
	return get_le64(low);
}

void power_parse(const void *data, struct power_life *ret_life)
{
	const struct nvme_smart_log *smart = data;

	*ret_life = (struct power_life){
		.is_known = true,
		.power_cycles = counter(smart->power_cycles),
		.unsafe_shutdowns = counter(smart->unsafe_shutdowns),
	};
}

bool power_was_lost(const struct power_life *before, const struct power_life *now)
{
	return before->is_known && now->is_known &&
	       (now->unsafe_shutdowns != before->unsafe_shutdowns ||
		now->power_cycles < before->power_cycles);
}

static void on_smart(void *context, const struct admin_answer *answer)
{
	struct controller *c = context;

	if (!controller_is_up(c))
		return;
	if (answer->status == NVME_OK)
		power_parse(answer->data, &c->life);
	else
		log_debug("%s: SMART log: %s", c->subnqn, nvme_status_string(answer->status));
	c->on_life(c);
}

void power_read(struct controller *c, void (*done)(struct controller *c))
{
	struct admin_command command = controller_get_log(NVME_LOG_SMART, 0,
							  sizeof(struct nvme_smart_log));

	c->life = (struct power_life){0};
	c->on_life = done;
	command.done = on_smart;
	controller_submit(c, &command);
}

static void report_loss(struct volume *volume)
{
	unflushed_report(&volume->unflushed);
	error_set(
		&volume->last_error, EXIT_FAILED,
		"check the file system, or write again what was written since the last flush",
		"the target has lost power: writes that it had acknowledged, and that were not flushed, may be lost; the next flush fails");
	log_err(VOLUME_FMT ": %s", VOLUME_ARG(volume), volume->last_error.message);
}

void power_on_lost(struct path *path)
{
	path->covered_by = UINT64_MAX;
}

void power_on_idle(struct path *path)
{
	if (path->covered_by == UINT64_MAX)
		path->covered_by = unflushed_number(&path->volume->unflushed, path->index);
}

void power_compare(struct path *path)
{
	struct volume *volume = path->volume;
	const struct controller *c = &path->controller;
	bool has_cache = volume->info.has_flush || c->id.has_volatile_cache;
	struct power_life before = path->life;

	if (c->life.is_known)
		path->life = c->life;
	if (!has_cache || !power_was_lost(&before, &c->life))
		return;
	if (!unflushed_is_covered(&volume->unflushed, path->index, path->covered_by))
		report_loss(volume);
	else
		log_info(VOLUME_FMT ": the target has lost power; all writes had been flushed",
			 VOLUME_ARG(volume));
}
