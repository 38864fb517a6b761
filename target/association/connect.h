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
	bool is_asking;	   /* what live ones have outstanding is not known, or in the way */
	bool is_in_round;  /* of the fence's questions, which began after it came */
	unsigned n_rounds; /* that have ended */
	uint64_t since;	   /* writes that came later do not count; ticks */
	uint64_t tick;	   /* of the fence, when it came */
	/* the answer */
	enum nvme_status status;
	uint32_t result;
	struct controller *controller;
};

/* Of a queue: what control asks its poller. */
struct fence_question {
	/* Thread: any */
	_Atomic bool is_asked;
	_Atomic uint64_t oldest_write; /* when the oldest outstanding one came; ticks */
};

/* Of a controller: commands that came, and the fence's tick in which some did last. */
struct fence_heard {
	/* Thread: control */
	uint64_t n_commands, tick;
};

/* All of these: control thread. */

/* connect.c. A Connect command, coming from a poller; answered by message, at once or later. */
void controller_on_connect(struct loop_msg *msg);
/* Answers one that has been decided: op->status, result and controller are set. */
void connect_answer(struct connect_op *op);

/* Decides and answers: no older association stands in the way. */
void connect_decide(struct connect_op *op);

/* fence.c */
/* NULL without memory. */
struct fence *fence_new(struct target *target);
void fence_free(struct fence *fence); /* accepts NULL; no Connect is held */
/* Whether an older association of this host still has I/O in flight. Then the op is held
 * and looked at again when that ends, or answered with a busy status after 10 s. */
bool fence_hold(struct connect_op *op);
/* An association may have ended. */
void fence_check(struct target *target);
/* The queue dies while its Connect is held back: answers it. */
void fence_cancel(struct queue *queue);
