/* SPDX-License-Identifier: BSD-3-Clause */
/* The Connect command between poller and control thread, and the fence that may hold it back. */
#pragma once

#include "base/loop.h"
#include "transport/wire/fabrics.h"

struct controller;
struct queue;
struct request;
struct target;

/* A Connect command on its way to the control thread and back. One at a time a queue. */
struct connect_op {
	struct loop_msg msg;
	struct queue *queue;
	struct request *request; /* poller's; control does not touch it */
	/* as the host sent it */
	uint16_t qid, sqsize, cntlid;
	uint8_t cattr;
	uint32_t kato_ms;
	uint8_t hostid[16];
	char subnqn[NVMF_NQN_MAX + 1], hostnqn[NVMF_NQN_MAX + 1];
	/* Thread: control; held back until an older association is gone */
	struct list node; /* target->held_connects */
	struct loop_timer deadline;
	bool is_held;
	/* the answer */
	enum nvme_status status;
	uint32_t result;
	struct controller *controller;
};

/* All of these: control thread. */

/* connect.c. A Connect command, coming from a poller; answered by message, at once or later. */
void controller_on_connect(struct loop_msg *msg);
/* Answers one that has been decided: op->status, result and controller are set. */
void connect_answer(struct connect_op *op);

/* fence.c. Whether an older association of this host still has I/O in flight. Then the op is held
 * and looked at again when that ends, or answered with a busy status after 10 s. */
bool fence_hold(struct connect_op *op);
/* An association may have ended. */
void fence_check(struct target *target);
/* The queue dies while its Connect is held back: answers it. */
void fence_cancel(struct queue *queue);
