/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fabric in memory, in place of transport/ device.c, cq.c, qp.c, recv_ring.c, window.c and cm.c.
 * A connection has two sides: queue pairs of two programs, or one queue pair and a host of the test
 * that speaks capsules itself (raw). Messages travel for a time that the dice choose, in order on
 * one side of a connection and in any order among connections. A link can be cut: its messages
 * wait, and a connection whose messages wait for too long breaks. One thread; no function fails.
 */
#pragma once

#include "transport/cm.h"
#include "transport/wire/nvme.h"

enum fabric_program {
	FABRIC_HOST,
	FABRIC_TARGET,
	FABRIC_PROGRAMS,
};

/* Of a seed. */
void fabric_begin(void);
/* Nothing is left: connections, queue pairs, receives. */
bool fabric_is_empty(void);
/* What these loops have to do; loops of other programs are not asked. */
bool fabric_has_work(enum fabric_program program);
/* From here on it runs no more; what it has in the network may still arrive. Its memory and its
 * connections stay until it has given them back. */
void fabric_kill(enum fabric_program program, bool is_machine_down);
/* A new program takes the place of one that was killed. */
void fabric_revive(enum fabric_program program);
void fabric_cut(unsigned path, uint64_t ns);
/* A connection of that program breaks as by an error of its device; false: there is none. */
bool fabric_break_one(enum fabric_program program);

/* ---- hosts of the test ---------------------------------------------------------------------- */

/* The host that takes what the target sends, as it is posted. NULL: it is dropped. Borrowed. */
struct fabric_host {
	void (*on_response)(struct qp *qp, const struct nvme_cqe *cqe);
	void (*on_data)(struct qp *qp, uint32_t rkey, const void *data, size_t n);
};
void fabric_set_host(const struct fabric_host *host);
/* A connect request arrives at a portal. */
void fabric_raw_connect(unsigned path, const void *private_data, size_t n);
/* A capsule arrives. */
void fabric_raw_deliver(struct qp *qp, const struct nvme_sqe *sqe, const void *data, size_t n);
