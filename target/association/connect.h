/* SPDX-License-Identifier: BSD-3-Clause */
/* The Connect command between poller and control thread (connect.c). */
#pragma once

#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "transport/wire/fabrics.h"

struct connection;
struct controller;
struct request;

/* What the fence holds a Connect for. */
enum fence_wait {
	FENCE_NOTHING, /* it is not held */
	FENCE_QUEUES,  /* queues of an older association are dying */
	FENCE_WRITES,  /* a live association has older writes, or they are unknown */
	FENCE_STORES,  /* another rblkd still has the stores */
};

/* A Connect command on its way to the control thread and back. Owner: the connection; one at a
 * time. */
struct connect_op {
	struct loop_msg msg;
	struct connection *connection;
	struct request *request; /* the poller's; control does not touch it */
	/* As the host sent it. */
	uint16_t qid, sqsize, cntlid;
	uint8_t cattr;
	uint32_t kato_ms;
	uint8_t hostid[16];
	char subnqn[NVMF_NQN_MAX + 1], hostnqn[NVMF_NQN_MAX + 1];
	/* Thread: control; while the fence holds the Connect */
	struct list node; /* target->held_connects */
	struct loop_timer deadline;
	enum fence_wait waits_for;
	uint64_t held_in;  /* the last round of the fence that began before it was held */
	unsigned n_rounds; /* rounds that have ended for it */
	uint64_t since;	   /* later writes do not count; ticks */
	uint64_t tick;	   /* of the fence, when the Connect was held */
	/* The answer. */
	enum nvme_status status;
	uint32_t result;
	struct controller *controller;
};

/* What a log record about a Connect is about, for callers that know connection.h and portal.h. */
#define CONNECT_ABOUT(op)                                                                          \
	LOG_ABOUT(.subsystem = (op)->subnqn, .host = (op)->hostnqn,                                \
		  .portal = (op)->connection->portal->name)

/* What the fence must know about the writes of a queue. */
struct fence_question {
	/* Thread: any */
	_Atomic bool is_asked;
	_Atomic uint64_t oldest_write; /* arrival of the oldest outstanding one; ticks */
};

/* Control. For fence_new: a Connect that was held is decided or refused, and answered. */
void connect_on_release(struct connect_op *op);
