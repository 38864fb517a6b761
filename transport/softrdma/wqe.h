/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qp;

/* How far a send work request has come; see qp_late.c for the middle two. */
enum wqe_stage {
	WQE_QUEUED,
	WQE_LATE, /* a READ or atomic that later requests have overtaken */
	WQE_OWED, /* executed, not yet completed */
	WQE_COMPLETE
};

/* A send work request as queued: everything copied, nothing borrowed. */
struct wqe {
	uint64_t wr_id;
	uint64_t remote_addr;
	uint32_t rkey; /* remote key, or the key to invalidate */
	uint32_t imm;
	uint32_t flags;
	uint32_t byte_len; /* LATE and OWED: what the completion will say */
	uint16_t inl_len;  /* bytes in data instead of sges, if IBV_SEND_INLINE */
	uint8_t opcode;	   /* enum ibv_wr_opcode */
	uint8_t n_sge;
	uint8_t stage;	 /* enum wqe_stage */
	bool fated;	 /* chaos has decided about it */
	bool backward;	 /* chaos moves it in pieces, the last one first */
	uint64_t moved;	 /* bytes that are there, ahead or as chaos lets them */
	uint64_t due_ns; /* LATE and OWED: not before */
	union {
		struct {
			uint64_t compare_add, swap;
		}; /* of an atomic */
		struct {
			struct ibv_mw *mw;
			struct ibv_mw_bind_info bind;
		}; /* of a window */
	};
	union {
		struct ibv_sge sge[1];
		uint8_t data[1];
	};
};

/* Building send work requests; shared by post.c and wr_ex.c. Under sq_lock. */

bool wqe_may_post(const struct qp *qp);
/* The slot at the head of the ring, NULL = full. The caller advances the head. */
struct wqe *wqe_next(struct qp *qp);
/* Append inline payload. 0 or ENOMEM. */
int wqe_inline(const struct qp *qp, struct wqe *w, const void *data, size_t len);
