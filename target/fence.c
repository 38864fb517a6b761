/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fence between two associations of one host. Control thread.
 *
 * A host whose connection died sends its unanswered writes again on a new one. If the old write
 * were still in our hands and reached the disk later, it would undo what the host has written
 * since (SPDK issue 3593). So the Connect of a new admin queue is held back while a queue of the
 * same host and subsystem is dying: those start nothing any more, and are gone when their backend
 * I/O has come back. After 10 s the host is told to try again later, without DNR.
 */
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "target/controller.h"

enum {
	FENCE_WAIT_S = 10,
};

static bool is_same_host(const struct controller *controller, const struct connect_op *op)
{
	return !controller->is_discovery && !strcmp(controller->subnqn, op->subnqn) &&
	       !strcmp(controller->hostnqn, op->hostnqn) &&
	       !memcmp(controller->hostid, op->hostid, sizeof(op->hostid));
}

/* What a defect of ours has stranded is not waited for. */
static bool has_dying_queue(const struct controller *controller)
{
	unsigned n_left = 0;

	list_for_each (node, &controller->queues) {
		const struct queue *queue = list_entry(node, struct queue, member_node);

		if (queue->defect.is_stranded)
			continue;
		if (queue->state == QUEUE_DYING)
			return true;
		n_left++;
	}
	return n_left && atomic_load(&controller->is_dying);
}

static bool must_wait(const struct connect_op *op)
{
	list_for_each (node, &op->queue->target->controllers) {
		const struct controller *controller = list_entry(node, struct controller,
								 node);

		if (is_same_host(controller, op) && has_dying_queue(controller))
			return true;
	}
	return false;
}

static void release(struct connect_op *op)
{
	op->is_held = false;
	list_remove(&op->node);
	loop_timer_stop(&op->deadline);
}

static void on_deadline(struct loop_timer *timer)
{
	struct connect_op *op = container_of(timer, struct connect_op, deadline);

	log_warn("host %s: old I/O to %s does not finish; connecting must wait",
		 op->hostnqn, op->subnqn);
	release(op);
	op->status = NVME_CONNECT_BUSY;
	connect_answer(op);
}

bool fence_hold(struct connect_op *op)
{
	if (!must_wait(op))
		return false;
	check(!op->is_held);
	op->is_held = true;
	op->deadline.on_expiry = on_deadline;
	/* The host has done its part. */
	loop_timer_stop(&op->queue->connect_timer);
	list_add_tail(&op->queue->target->held_connects, &op->node);
	loop_timer_start(&op->queue->target->loop, &op->deadline,
			 FENCE_WAIT_S * NSEC_PER_SEC);
	return true;
}

void fence_check(struct target *target)
{
	list_for_each_safe (node, &target->held_connects) {
		struct connect_op *op = list_entry(node, struct connect_op, node);

		if (must_wait(op))
			continue;
		release(op);
		controller_on_connect(&op->msg);
	}
}

void fence_cancel(struct queue *queue)
{
	struct connect_op *op = &queue->connect;

	if (!op->is_held)
		return;
	release(op);
	op->status = NVME_ABORTED_SQ_DELETION;
	connect_answer(op);
}
