/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Send work requests as the ring of a queue pair holds them, and the functions that build them.
 * post.c and wr_ex.c build them on application threads; the engine and qp_run.c read them, perhaps
 * on the helper; all under sq_lock. A slot belongs to its request until that request's completion,
 * or a later one, was polled.
 */
#pragma once

#include <assert.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softrdma/fabric/datagram.h"

struct sr_qp;

/* The progress of a send work request; see qp_late.c for the middle two. */
enum sr_wqe_stage {
	WQE_QUEUED,
	WQE_LATE, /* a READ or atomic that later requests have overtaken */
	WQE_OWED, /* executed, not yet completed */
	WQE_SENT, /* its engine will complete it */
	WQE_COMPLETE
};

/* A send work request as queued: a copy of everything, nothing borrowed. */
struct sr_wqe {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t due_ns; /* LATE and OWED: not before */
	uint32_t rkey;	 /* remote key, or the key to invalidate */
	uint32_t imm;
	uint32_t byte_len; /* LATE and OWED: for the completion */
	uint32_t moved;	   /* bytes copied already, by a ride or in pieces by chaos */
	uint16_t inl_len;  /* bytes in data instead of sges, if IBV_SEND_INLINE */
	uint8_t flags;	   /* enum ibv_send_flags */
	uint8_t opcode;	   /* enum ibv_wr_opcode */
	uint8_t n_sge;
	uint8_t stage;	  /* enum sr_wqe_stage */
	bool is_fated;	  /* chaos has drawn its faults */
	bool is_backward; /* chaos moves it in pieces, the last one first */
	union {
		struct ibv_sge sge[1];
		uint8_t data[1];
	};
};
/* With one piece of data, as most have, it is one cache line. */
static_assert(offsetof(struct sr_wqe, data) + sizeof(struct ibv_sge) == 64, "a cache line");

/* Only a few kinds of work have it. It stands apart, because most queues never touch it. */
struct sr_wqe_extra {
	union {
		struct {
			uint64_t compare_add, swap;
		} atomic;
		struct {
			struct ibv_mw *mw;
			struct ibv_mw_bind_info info;
		} bind;
		struct {
			struct sr_address to;
			uint32_t qpn, qkey;
		} datagram;
	};
	uint32_t srqn; /* XRC: of each request */
};
