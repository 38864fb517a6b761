/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "cq.h"
#include "node.h"
#include "srq.h"
#include "wqe.h"

/* Why the send queue stands still. */
enum qp_wait {
	WAIT_NO,
	WAIT_RNR,
	WAIT_RETRY,
	WAIT_CHAOS
};

struct qp {
	struct ibv_qp_ex ib;
	uint32_t slot;
	struct seg_qp *s;
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	struct ibv_qp_cap cap;
	bool sig_all;
	bool live; /* complete and not on its way out; guarded by the table lock */
	size_t rq_bytes;
	unsigned async_delivered; /* guarded by the context's lock */

	pthread_mutex_t rq_lock; /* guards posting receives */

	/* Guards all below, and execution. Taken before any QP's shared lock. */
	pthread_mutex_t sq_lock;
	struct ibv_qp_attr attr;
	struct peer *_Atomic peer; /* ref; NULL until found. Also read by posters of receives */
	struct seg_qp *remote;
	uint32_t remote_slot;
	void *wqes;		 /* owned ring of struct wqe */
	union wqe_extra *extras; /* owned: as many, from the first atomic or bind on */
	uint32_t wqe_stride, wqe_mask;
	uint64_t head;	 /* next to be posted */
	uint64_t exec;	 /* next to be executed */
	uint64_t owed;	 /* the oldest not yet complete; exec without chaos */
	unsigned n_late; /* in stage WQE_LATE */
	struct timer late_timer;
	_Atomic uint64_t freed; /* slots given back by polling */
	enum qp_wait wait;
	uint64_t wait_until; /* 0 = for ever */
	struct timer timer;
	unsigned burst;	   /* READs and atomics in a row that a wire would have under way at once */
	bool drained;	   /* LAST_WQE_REACHED has been raised since ERR was entered */
	uint64_t ex_start; /* ibv_wr_*: head at wr_start, and the first error since */
	int ex_error;
};

/*
 * By slot. Entries are written under the table lock; a poller may look its own QPs
 * up without, because a QP leaves the table only after its completions left the CQ.
 */
extern struct qp *qp_table[SEG_MAX_QP];
void qp_table_lock(void);
void qp_table_unlock(void);

static inline struct qp *to_qp(struct ibv_qp *q)
{
	return container_of(q, struct qp, ib.qp_base);
}

static inline struct wqe *qp_wqe(const struct qp *qp, uint64_t i)
{
	return (struct wqe *)(void *)((char *)qp->wqes + (i & qp->wqe_mask) * qp->wqe_stride);
}

static inline size_t wqe_slot(const struct qp *qp, const struct wqe *w)
{
	return (size_t)((const char *)w - (const char *)qp->wqes) / qp->wqe_stride;
}

/* Of an atomic or a bind. */
static inline const union wqe_extra *qp_extra(const struct qp *qp, const struct wqe *w)
{
	return &qp->extras[wqe_slot(qp, w)];
}

static inline enum ibv_qp_state qp_state(const struct qp *qp)
{
	return (enum ibv_qp_state)atomic_load_explicit(&qp->s->state, memory_order_acquire);
}

/* The attributes of ibv_create_qp as those of ibv_create_qp_ex. */
struct ibv_qp_init_attr_ex qp_attr_ex(const struct ibv_qp_init_attr *init, struct ibv_pd *pd);
struct ibv_qp *qp_create_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);
int qp_post_send(struct ibv_qp *ib, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int qp_post_recv(struct ibv_qp *ib, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* A type 1 window bind is a send work request of its own kind. */
int qp_post_bind(struct qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind *bind);
void qp_ex_init(struct qp *qp);

/* Called with sq_lock held. */
void qp_run(struct qp *qp);   /* execute what can be executed */
void qp_error(struct qp *qp); /* -> ERR: flush both queues */
/* Pushes a completion, if asked for or an error; polling it gives back slots to `freed`. */
void qp_complete(struct qp *qp, const struct wqe *w, uint64_t freed, enum ibv_wc_status status,
		 uint32_t byte_len);
void qp_find_peer(struct qp *qp);
void qp_stop_waiting(struct qp *qp);
/* Called by cq_pop: the application has seen this completion. */
void qp_on_polled(const struct seg_cqe *e);
void qp_on_dropped(const struct seg_cqe *e);
/* Reset or gone: completions and the claim on an SRQ vanish. */
void qp_drop_completions(struct qp *qp);
/* Helper. */
void qp_attention(uint32_t slot);
void qp_peer_died(struct peer *p);
void qp_cq_overrun(uint32_t cq_slot);
void qp_fail_all(void);
void qp_kick_all(void);
void qp_forget(void);

/* Tell the QP at the other end that its waiting send may go on. */
void qp_kick_waiter(uint32_t slot);
void qp_kick_srq_waiters(uint32_t srq_slot);
void qp_quiesce_all(void);

/* Slot of a QP number in its owner's segment. */
uint32_t qp_slot_of(const struct seg *s, uint32_t qpn);
