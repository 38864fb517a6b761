/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which parts of a volume are holes: a question goes from an I/O loop to the control loop, which
 * asks the target by Get LBA Status, one question at a time, and back.
 *
 *     I/O loop                 control loop
 *     volume_extents_ask  -->  on_ask: waits for its turn, is sent
 *     done                <--  answer: from the target, or without it
 *
 * "All may hold data" is always true. It is the answer where the target does not offer the command,
 * does not promise that deallocated blocks read as zeroes, refuses, or cannot be asked now. So a
 * question never waits for a reconnect. A target that is slow is waited for as for I/O: the command
 * has no timeout of its own.
 *
 * The answer is as old as the target's: a write that was answered before the question was asked is
 * in it, on whatever queue, because the target looks after the question has arrived. A write that
 * runs beside the question may be missing.
 */
#include "base/bits.h"
#include "base/check.h"
#include "initiator/control/extents.h"
#include "initiator/control/controller_command.h"
#include "initiator/control/lba_status.h"
#include "initiator/control/path_impl.h"
#include "initiator/control/volume_impl.h"
#include "initiator/control/volume_info.h"
#include "initiator/io/queue_impl.h"

static void on_answer(struct loop_msg *msg)
{
	struct volume_extents *ask = container_of(msg, struct volume_extents, msg);

	ask->done(ask);
}

static void answer(struct volume_extents *ask)
{
	ask->msg.run = on_answer;
	loop_send(ask->queue->loop, &ask->msg);
}

static void answer_all_data(struct volume_extents *ask)
{
	ask->n = 1;
	ask->runs[0] = (struct volume_run){.length = ask->length};
	answer(ask);
}

static bool can_ask(const struct path *path)
{
	const struct controller *c = path ? &path->controller : NULL;

	return c && c->state == CTRL_LIVE && c->limits.reports_allocated &&
	       c->ns.reads_zero_after_trim;
}

static void pump(struct volume *volume);

static void on_status(void *context, const struct admin_answer *status)
{
	const struct path *path = context;
	struct volume *volume = path->volume;
	struct volume_extents *ask = volume->extents_asked;
	unsigned shift = log2_floor(volume->info.block_size);

	if (!ask || volume->extents_path != path)
		return; /* extents_fail has answered it */
	volume->extents_asked = NULL;
	if (status->status != NVME_OK) {
		answer_all_data(ask);
	} else {
		ask->n = lba_status_read(status->data, ask->offset >> shift, ask->length >> shift,
					 ask->runs, VOLUME_RUNS_MAX);
		for (unsigned i = 0; i < ask->n; i++)
			ask->runs[i].length <<= shift;
		answer(ask);
	}
	pump(volume);
}

static int send_to_target(struct volume *volume, struct path *path,
			  const struct volume_extents *ask)
{
	unsigned shift = path->controller.ns.block_shift;
	struct admin_command command = lba_status_ask(volume->config.nsid, ask->offset >> shift,
						      ask->length >> shift);

	command.done = on_status;
	command.context = path;
	volume->extents_path = path;
	return admin_submit(&path->controller.admin, &command);
}

static void pump(struct volume *volume)
{
	struct list *node;

	while (!volume->extents_asked && (node = list_take_first(&volume->extents_waiting))) {
		struct volume_extents *ask = list_entry(node, struct volume_extents, node);
		struct path *path = volume_best_path(volume);

		if (!can_ask(path) || send_to_target(volume, path, ask) < 0)
			answer_all_data(ask);
		else
			volume->extents_asked = ask;
	}
}

static void on_ask(struct loop_msg *msg)
{
	struct volume_extents *ask = container_of(msg, struct volume_extents, msg);
	struct volume *volume = ask->queue->volume;

	list_add_tail(&volume->extents_waiting, &ask->node);
	pump(volume);
}

void volume_extents_ask(struct volume_queue *queue, struct volume_extents *ask)
{
	check(ask->length > 0);
	ask->queue = queue;
	ask->msg.run = on_ask;
	loop_send(queue->control, &ask->msg);
}

void extents_fail(struct path *path)
{
	struct volume *volume = path->volume;
	struct volume_extents *ask = volume->extents_asked;

	if (!ask || volume->extents_path != path)
		return;
	volume->extents_asked = NULL;
	answer_all_data(ask);
	pump(volume);
}
