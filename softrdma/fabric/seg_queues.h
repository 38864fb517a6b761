/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks and queues in the shared segment. They are the owner's; seg.h explains which fields peers
 * write, and fabric/rq.c and fabric/completion.c define the order of those writes.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SEG_INLINE 64u /* a SEND up to this size travels inside its receive CQE */

/* The holder of a lock: pid << 32 | low half of the process start time. 0 = free. */
struct seg_lock {
	_Atomic uint64_t owner;
};

/* A queue pair as the other end knows it: its number, which has 24 bits, and its kind. So one
 * comparison shows that both ends are of one kind. */
static inline uint32_t seg_qp_name(uint32_t qpn, enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UC:
		return qpn | 1u << 24;
	case IBV_QPT_XRC_SEND:
		return qpn | 2u << 24;
	case IBV_QPT_XRC_RECV:
		return qpn | 3u << 24;
	default:
		return qpn;
	}
}

/* The kind of queue pair to which one of this kind is connected. */
static inline enum ibv_qp_type seg_counterpart(enum ibv_qp_type type)
{
	if (type == IBV_QPT_XRC_SEND)
		return IBV_QPT_XRC_RECV;
	return type == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND : type;
}

/*
 * The name of an XRC domain: the file by whose descriptor processes share it, as device and inode;
 * of one that no file names, UINT64_MAX and a number that no other has.
 */
struct seg_domain {
	uint64_t device, inode;
};

static inline bool seg_domain_is(const struct seg_domain *a, const struct seg_domain *b)
{
	return a->device == b->device && a->inode == b->inode;
}

/* A posted receive. The sge list follows, as many as the queue's max_sge. */
struct seg_rqe {
	uint64_t wr_id;
	/* Position in posting order; UINT64_MAX when free. Atomic, because in a shared receive
	 * queue a repair may read a slot that was posted again. */
	_Atomic uint64_t seq;
	uint32_t n_sge;
	uint32_t slot;
	struct ibv_sge sge[];
};

/* A receive queue: the ring of a QP. SRQs add an order ring, see seg_srq. */
struct seg_rq {
	uint64_t ring; /* offset of the first seg_rqe */
	uint32_t stride;
	uint32_t mask;
	_Atomic uint64_t posted; /* owner */
	_Atomic uint64_t head;	 /* next to be consumed: the holder of the QP's lock */
	_Atomic uint64_t polled; /* owner: completions taken by the application */
};

struct seg_srq {
	struct seg_lock lock; /* held only to pop */
	_Atomic uint32_t live;
	uint32_t pd;
	uint64_t ring;	/* offset of the seg_rqe slots */
	uint64_t order; /* offset of uint32_t slot numbers in posting order */
	uint32_t stride;
	uint32_t mask;
	_Atomic uint32_t popper;  /* peer: QP slot + 1 of the QP that pops now */
	_Atomic uint32_t limit;	  /* armed limit, 0 = none; peer: cleared when it fires */
	_Atomic uint32_t fired;	  /* peer: limit event for the owner's helper */
	_Atomic uint32_t waiters; /* peer: some QP of this SRQ has a waiter */
	_Atomic uint64_t posted;
	_Atomic uint64_t head;
	uint32_t cq;	 /* XRC: slot + 1; 0: the completions go to the queue pairs' */
	uint32_t number; /* XRC: as senders name it */
	struct seg_domain domain;
};

enum seg_cqe_kind {
	SEG_CQE_VOID,
	SEG_CQE_SEND,
	SEG_CQE_RECV,
	SEG_CQE_XRC, /* a receive of an XRC SRQ */
};

struct seg_cqe {
	struct ibv_wc wc;
	uint64_t seq;  /* SEND: slots the SQ gets back up to here; receives: RQ position */
	uint16_t slot; /* of the QP; XRC: of the SRQ */
	uint8_t kind;
	uint8_t solicited;
	uint16_t rqe_slot; /* receives: which seg_rqe */
	uint16_t inl_len;  /* receives: payload bytes in inl[] */
	uint8_t inl[SEG_INLINE];
};

enum seg_arm {
	SEG_ARM_NONE,
	SEG_ARM_SOLICITED,
	SEG_ARM_ANY
};

struct seg_cq {
	struct seg_lock lock; /* producers */
	_Atomic uint32_t live;
	_Atomic uint32_t armed;	  /* enum seg_arm; peer: taken when the event is raised */
	_Atomic uint32_t pending; /* peer: events raised, not yet fetched */
	_Atomic uint32_t overrun; /* peer */
	uint64_t ring;
	uint32_t mask;
	int32_t chan_fd;       /* owner's descriptor number, -1 = no channel */
	uint64_t chan_serial;  /* names the channel in the peers' descriptor caches */
	_Atomic uint64_t tail; /* peer: published entries */
	_Atomic uint64_t head; /* owner: consumed entries */
};

/* A queue pair that receives what is sent to a multicast group. */
struct seg_member {
	_Atomic uint32_t qp_slot; /* + 1; 0: free. Written last */
	uint8_t gid[16];
};

/* An XRC domain that this process has open, once for each handle. */
struct seg_open_domain {
	_Atomic uint32_t is_open; /* written last */
	struct seg_domain name;
};
