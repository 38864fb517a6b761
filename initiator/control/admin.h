/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The admin queue of one association, on the control loop: a few commands at a time, each with 4
 * KiB of registered memory of its own. The caller gets a private copy of the data, because a target
 * may write to registered memory at any time.
 */
#pragma once

#include "base/capture.h"
#include "base/error.h"
#include "base/loop.h"
#include "transport/cm.h"
#include "transport/cq.h"
#include "transport/device.h"
#include "transport/qp.h"
#include "transport/wire/fabrics.h"

enum {
	ADMIN_SLOTS = 8,
	ADMIN_DATA_BYTES = 4096,
};

struct admin;

struct admin_answer {
	enum nvme_status status;
	uint64_t result;
	const uint8_t *data; /* ADMIN_DATA_BYTES of a command that reads; until done returns */
};

struct admin_command {
	struct nvme_sqe sqe;	/* without CID and SGL */
	const void *write_data; /* copied; or NULL */
	uint32_t n_write;
	uint32_t n_read;     /* one of n_write, n_read is 0 */
	uint64_t timeout_ns; /* 0: none */
	/* Not from inside admin_submit; not called when the queue dies first. */
	void (*done)(void *context, const struct admin_answer *answer);
	void *context;
};

/* The rules of moves: admin.c. */
enum admin_slot_state {
	ADMIN_SLOT_FREE,
	ADMIN_SLOT_SENT,	  /* SEND and answer are outstanding */
	ADMIN_SLOT_AWAITS_ANSWER, /* the SEND has completed */
	ADMIN_SLOT_AWAITS_SEND,	  /* the answer has overtaken the completion of the SEND */
};

enum admin_state {
	ADMIN_IDLE,
	ADMIN_RUNNING,
	ADMIN_FAILED, /* on_failed was called; sends nothing, discards answers */
	ADMIN_STOPPING,
};

struct admin_slot {
	struct work send;
	struct admin *admin;
	struct loop_timer timer;
	uint16_t generation;
	enum admin_slot_state state;
	uint32_t n_read;
	uint64_t sent_ns;
	struct admin_answer answer;
	void (*done)(void *context, const struct admin_answer *answer);
	void *context;
	struct nvme_sqe *sqe; /* in registered memory */
	uint8_t *data;
};

struct admin {
	/* Thread: control */
	struct loop *loop; /* borrowed */
	struct cq cq;
	struct qp qp;
	struct mr mr;
	uint8_t *memory; /* owned mapping */
	struct admin_slot slots[ADMIN_SLOTS];
	uint8_t copy[ADMIN_DATA_BYTES];
	enum admin_state state;
	struct capture *capture;      /* borrowed */
	struct capture_stream stream; /* the owner sets it when connected */
	struct loop_call stopped_call;
	/* Once: the queue has failed; reason is one line. The owner stops it. */
	void (*on_failed)(struct admin *admin, bool is_timeout, const char *reason);
	/* The queue is stopped, and all that it owned is freed. */
	void (*on_stopped)(struct admin *admin);
	void *context;
};

/* The connection is resolved, not yet connected. On an error *error is filled and
 * there is nothing to stop. loop, capture, on_failed, on_stopped and context are set. */
int admin_start(struct admin *admin, struct cm_conn *conn, const struct domain *domain,
		struct error *error);
/* Drains and frees; then on_stopped, not from inside. */
void admin_stop(struct admin *admin);
/* 0, or -EBUSY when all slots are taken. A queue that has failed drops the command. */
int admin_submit(struct admin *admin, const struct admin_command *command);
