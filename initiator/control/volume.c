/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public face of a volume: open, close, queues, status. Control loop only.
 *
 * volume_open makes the volume and lets reconnect.c connect it; front ends then add a
 * queue for each of their I/O loops. Removing a queue takes it off the target (link.c),
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
#include "initiator/control/link.h"
#include "initiator/control/link_memory.h"
#include "initiator/control/volume_impl.h"

static_assert(VOLUME_QUEUES_MAX <= 64, "used_qids has a bit for each");

enum {
	QUEUE_SIZE_MIN = 16,
	QUEUE_SIZE_MAX = 1024,
};
#define RECONNECT_DELAY_MIN_NS (10 * NSEC_PER_MSEC)
#define KEEP_ALIVE_MIN_NS      (100 * NSEC_PER_MSEC)

void volume_config_init(struct volume_config *config)
{
	*config = (struct volume_config){
		.nsid = 1,
		.n_queues = 4,
		.queue_size = 128,
		.slab_bytes = 32 * MIB,
		.may_shrink_slab = true,
		.keep_alive_ns = 10 * NSEC_PER_SEC,
		.reconnect_delay_ns = 2 * NSEC_PER_SEC,
		.ctrl_loss_tmo_ns = 600 * NSEC_PER_SEC,
		.fast_io_fail_tmo_ns = UINT64_MAX,
		.io_timeout_ns = 30 * NSEC_PER_SEC,
	};
}

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
	       config->address.sa.sa_family && config->n_queues >= 1 &&
	       config->n_queues <= VOLUME_QUEUES_MAX && config->queue_size >= QUEUE_SIZE_MIN &&
	       config->queue_size <= QUEUE_SIZE_MAX && config->io_timeout_ns;
}

/* The last call of reconnect.c: nothing of the volume is used any more. */
static void on_over(struct volume *volume)
{
	struct volume_callbacks callbacks = volume->callbacks;
	void *context = volume->context;

	cm_free(volume->cm);
	volume_io_errors_deinit(&volume->io_errors);
	memories_deinit(&volume->memories);
	free(volume);
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
	list_init(&volume->cqs);
	list_init(&volume->extents_waiting);
	r = cm_new(control, &volume->cm);
	if (r < 0) {
		volume_io_errors_deinit(&volume->io_errors);
		memories_deinit(&volume->memories);
		free(volume);
		return r;
	}
	controller_init(&volume->controller, control, volume->cm, &volume->config, false,
			&reconnect_controller_ops, volume);
	volume->on_over = on_over;
	reconnect_open(volume);
	*ret_volume = volume;
	return 0;
}

void volume_close(struct volume *volume)
{
	check(list_is_empty(&volume->queues) && list_is_empty(&volume->cqs));
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

void volume_get_status(struct volume *volume, struct volume_status *ret_status)
{
	struct volume_status status = {
		.state = reconnect_state(volume),
		.state_since_ns = volume->phase_since_ns,
		.n_reconnects = volume->n_reconnects,
		.n_invalidated = volume->n_invalidated,
		.n_revoked = volume->n_revoked,
		.gives_up_in_ns = gives_up_in_ns(volume),
		.cntlid = volume->controller.cntlid,
		.last_error = volume->last_error,
	};

	volume_io_errors_read(&volume->io_errors, &status.io_errors);
	proof_get(volume, &status.fencing);
	if (volume->controller.ana_state) {
		status.ana_state = nvme_ana_state_string(volume->controller.ana_state);
		status.ana_group = volume->controller.ns.ana_group;
	}
	list_for_each (node, &volume->queues) {
		struct volume_queue *queue = list_entry(node, struct volume_queue, node);

		status.n_queues_live += queue->link->state == LINK_LIVE;
		status.backed_bytes += slab_backed_bytes(&queue->slab);
		status.n_held += atomic_load_explicit(&queue->seen_held, memory_order_relaxed);
		status.n_in_flight += atomic_load_explicit(&queue->seen_in_flight,
							   memory_order_relaxed);
		status.n_invalidated += atomic_load_explicit(&queue->n_invalidated,
							     memory_order_relaxed);
		status.n_revoked += atomic_load_explicit(&queue->n_revoked, memory_order_relaxed);
	}
	if (volume->controller.domain.device)
		memcpy(status.device, volume->controller.domain.device->name,
		       sizeof(status.device));
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

static void on_queue_quitted(struct loop_msg *msg)
{
	struct volume_queue *queue = container_of(msg, struct volume_queue, quitted_msg);
	struct volume *volume = queue->volume;
	void (*on_removed)(void *context) = queue->on_removed;
	void *context = queue->on_removed_context;

	list_remove(&queue->node);
	unflushed_leave(&volume->unflushed, &queue->unflushed_mark);
	volume->n_invalidated += atomic_load(&queue->n_invalidated);
	volume->n_revoked += atomic_load(&queue->n_revoked);
	io_stats_sum(&queue->stats, volume->io_stats);
	volume->used_qids &= ~(1ull << (queue->limits.qid - 1));
	free(queue->link);
	queue_free(queue);
	reconnect_on_queue_gone(volume);
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
		.n_entries = config->queue_size,
		.slab_bytes = volume_slab_bytes(config),
		.max_io_bytes = volume->info.max_io_bytes,
		.is_slab_whole = config->is_slab_whole,
		.io_timeout_ns = config->io_timeout_ns,
		.retry_for_ns = config->ctrl_loss_tmo_ns,
		.is_watched = config->keep_alive_ns &&
			      config->keep_alive_ns <= config->io_timeout_ns,
		.on_attached = link_on_attached,
		.on_connected = link_on_connected,
		.on_failed = link_on_failed,
		.on_stopped = link_on_stopped,
		.on_quitted = on_queue_quitted,
		.on_resize = link_on_resize,
	};
	struct link *link = calloc(1, sizeof(*link));
	int r = link ? queue_new(&queue_config, ret_queue) : -ENOMEM;

	if (r < 0) {
		free(link);
		return r;
	}
	link->queue = *ret_queue;
	link->ops = &reconnect_link_ops;
	(*ret_queue)->link = link;
	return 0;
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
	link_start(queue);
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
	if (queue->link->state == LINK_IDLE) {
		loop_timer_stop(&queue->link->retry);
		loop_send(queue->loop, &queue->quit_msg);
	} else {
		link_stop(queue);
	}
}
