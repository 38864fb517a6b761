/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared segment: everything of one process that a peer must reach to execute a work request on
 * its behalf. One memfd per process, mapped by every peer at any address, so it contains offsets
 * and slot numbers, never pointers. The owner writes each field unless its comment says "peer".
 * Peers are processes of the same user, so their values are trusted.
 */
#pragma once

#include <assert.h>
#include <infiniband/verbs.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "softrdma/fabric/seg_memory.h"
#include "softrdma/fabric/seg_queues.h"

#define SEG_MAGIC   0x736f667472646d61ULL /* "softrdma" */
#define SEG_VERSION 7u
#define SEG_SIZE    (32ULL << 30) /* virtual: pages appear when touched; less under a limit */
#define SEG_MIN	    (64ULL << 20)

#define SEG_MAX_QP     4096u
#define SEG_MAX_CQ     4096u
#define SEG_MAX_SRQ    1024u
#define SEG_MAX_MEMBER 256u
#define SEG_MAX_DOMAIN 256u
#define SEG_MAX_BASE   (SEG_MAX_QP / 256u)
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a hidden lock would not be shared");
static_assert(SEG_MAX_QP % 64 + SEG_MAX_CQ % 64 + SEG_MAX_SRQ % 64 == 0, "words of attention bits");
static_assert(SEG_MAX_QP <= UINT16_MAX + 1, "seg_cqe.slot");

/* Reasons for the owner's helper to look at a queue pair. */
enum seg_event {
	SEG_EV_ACCESS_ERR = 1 << 0, /* remote access error: QP went to ERR */
	SEG_EV_REQ_ERR = 1 << 1,    /* invalid request: QP went to ERR */
	SEG_EV_FLUSH = 1 << 2,	    /* QP is in ERR, its queues are to be flushed */
	SEG_EV_RESUME = 1 << 3,	    /* the condition a waiting send waited for changed */
	SEG_EV_COMM_EST = 1 << 4,   /* data arrived in RTR */
	SEG_EV_FATAL = 1 << 5,	    /* local catastrophic error */
};

struct seg_qp {
	struct seg_lock lock;	 /* serialises every transaction on the receiving side */
	_Atomic uint32_t qpn;	 /* 0 = slot is free */
	_Atomic uint32_t state;	 /* enum ibv_qp_state; peer: -> ERR under lock */
	_Atomic uint32_t events; /* peer: enum seg_event for the owner's helper */
	_Atomic uint32_t waiter; /* peer: a send waits for a receive or for RTR */
	uint32_t dest;		 /* whose messages it takes: seg_qp_name */
	uint32_t access;
	uint32_t pd;
	uint32_t max_dest_rd;
	uint32_t min_rnr_timer;
	uint32_t recv_cq;
	/* Slot + 1, 0 = own receive queue. XRC_RECV: of the last message that took a
	 * receive; the holder of the lock writes it, recv_cq and pd (xrc.h). */
	uint32_t srq;
	_Atomic uint32_t established; /* peer: COMM_EST was raised */
	_Atomic uint64_t claim;	      /* peer: position + 1 in the SRQ's order ring */
	struct seg_rq rq;
	_Atomic uint32_t type;	  /* enum ibv_qp_type */
	uint32_t qkey;		  /* UD */
	struct seg_domain domain; /* XRC_RECV */
};

struct seg {
	uint64_t magic;
	uint32_t version;
	int32_t pid;
	uint64_t owner;	   /* the owner's lock identity */
	uint64_t instance; /* random, names this segment */
	uint64_t size;	   /* of the memfd */
	_Atomic uint32_t n_base;
	uint16_t base[SEG_MAX_BASE]; /* QP slots 256*i.. are base[i] << 8 | slot % 256 */
	pthread_mutex_t life;	     /* robust, held by the owner's helper: see seg_owner_lives */
	struct seg_lock atomics;     /* serialises atomic operations on this memory */
	_Atomic uint64_t attn_qp[SEG_MAX_QP / 64];
	_Atomic uint64_t attn_cq[SEG_MAX_CQ / 64];
	_Atomic uint64_t attn_srq[SEG_MAX_SRQ / 64];
	_Atomic uint64_t attn_view[1]; /* bit 0: some process has ended a share */
	_Atomic uint32_t n_members;    /* no member lies beyond */
	struct seg_member member[SEG_MAX_MEMBER];
	struct seg_mr mr[SEG_MAX_MR];
	struct seg_share share[SEG_MAX_SHARE];
	struct seg_open_domain domain[SEG_MAX_DOMAIN];
	struct seg_qp qp[SEG_MAX_QP];
	struct seg_cq cq[SEG_MAX_CQ];
	struct seg_srq srq[SEG_MAX_SRQ];
};

/*
 * The kernel marks a robust mutex when its holder ends, be it by SIGKILL or exec, before any
 * process can collect its exit status. So one load shows whether the owner lives.
 */
static inline bool seg_owner_lives(const struct seg *s)
{
	return !(__atomic_load_n(&s->life.__data.__lock, __ATOMIC_RELAXED) & FUTEX_OWNER_DIED);
}

/* Offsets in a segment become addresses of this process. The caller has checked the offset. */
static inline void *seg_at(struct seg *s, uint64_t offset)
{
	return (uint8_t *)s + offset;
}

/* Entry index of a ring of receives; the caller has reduced index to the ring's size. */
static inline struct seg_rqe *seg_rqe(struct seg *s, uint64_t ring, uint32_t stride, uint64_t index)
{
	return seg_at(s, ring + index * stride);
}

/* Entry i of a completion queue, counted from its creation: the ring wraps here. */
static inline struct seg_cqe *seg_cqe(struct seg *s, const struct seg_cq *cq, uint64_t i)
{
	return (struct seg_cqe *)seg_at(s, cq->ring) + (i & cq->mask);
}

/*
 * Without elements the list may be NULL, which memcpy does not allow. The application's list may
 * have any alignment: libiscsi's is in a packed structure.
 */
static inline void sr_copy_sge_list(struct ibv_sge *to, const void *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		memcpy(&to[i], (const char *)from + i * sizeof(*to), sizeof(*to));
}

/* This process' segment; NULL until the first device is opened. Set once. */
extern struct seg *seg_self;

/* Creates this process' segment. *ret_fd: the memfd, which the caller owns. 0 or -errno. */
int seg_create(int *ret_fd);
/* Maps a peer's segment and checks its header. 0 or -errno. */
int seg_map(int fd, uint64_t instance, int32_t pid, struct seg **ret);
void seg_unmap(struct seg *s);

/* The arena of this process' segment: page granular; 0 = no room. Contents are zero. */
uint64_t seg_alloc(size_t bytes);
void seg_free(uint64_t offset, size_t bytes);
/* Slot of a QP number in its owner's segment. */
uint32_t seg_qp_slot(const struct seg *s, uint32_t qpn);
