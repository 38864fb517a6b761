/* SPDX-License-Identifier: BSD-3-Clause */
/* The Connect command between poller and control thread (connect.c). */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "transport/wire/fabrics.h"

struct connection;
struct controller;
struct request;

/* A Connect command on its way to the control thread and back. One at a time a queue. */
struct connect_op {
	struct loop_msg msg;
	struct connection *connection;
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

/* The writes of a queue that the fence must know of. */
struct fence_question {
	/* Thread: any */
	_Atomic bool is_asked;
	_Atomic uint64_t oldest_write; /* when the oldest outstanding one came; ticks */
};

/* All of these: control thread. */

/* Answers one that has been decided: op->status, result and controller are set. */
void connect_answer(struct connect_op *op);
/* Decides and answers: no older association stands in the way. */
void connect_decide(struct connect_op *op);
