/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pair state machine: ibv_modify_qp and ibv_query_qp.
 *
 *   RESET -> INIT -> RTR -> RTS <-> SQD,  any -> ERR, any -> RESET
 *
 * Each transition has the attributes it requires and those it allows, as in IBA table 91 and the
 * kernel's qp_state_table for RC, UC, UD and both halves of XRC; anything missing or extra is
 * EINVAL. RTR looks up the other end. A queue pair for datagrams has none: it opens its addresses.
 * RTS resumes a sender that waits for this end. RESET drops the work requests and the completions
 * without a trace; ERR flushes them.
 */
#include "softrdma/verbs/qp_table.h"
#include "softrdma/verbs/sr_qp.h"

#include <errno.h>
#include <string.h>

#include "softrdma/fabric/lock.h"
#include "softrdma/fabric/peer.h"
#include "softrdma/verbs/async.h"
#include "softrdma/verbs/qp_late.h"
#include "softrdma/verbs/qp_run.h"
#include "softrdma/fabric/rq.h"
#include "softrdma/verbs/qp_wait.h"
#include "softrdma/verbs/xrc.h"

#define ANY_TIME (IBV_QP_STATE | IBV_QP_CUR_STATE)

struct transition {
	enum ibv_qp_state from, to;
	int required, optional;
};

static const struct transition transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS,
	 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		 IBV_QP_MAX_QP_RD_ATOMIC,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
		 IBV_QP_MIN_RNR_TIMER},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_CUR_STATE |
		 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
};

static const struct transition lossy_transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_AV | IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
		 IBV_QP_PATH_MIG_STATE},
};

/* The half of XRC that sends has what concerns a requester, and the other one what concerns a
 * responder. */
static const struct transition xrc_send_transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS,
	 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		 IBV_QP_MAX_QP_RD_ATOMIC,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_CUR_STATE | IBV_QP_ALT_PATH |
		 IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE},
};

static const struct transition xrc_recv_transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
		 IBV_QP_MIN_RNR_TIMER},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_CUR_STATE |
		 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
};

static const struct transition datagram_transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
	{IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
};

#define TABLE(name)                                                                                \
	(struct table)                                                                             \
	{                                                                                          \
		name, sizeof(name) / sizeof(*(name))                                               \
	}

struct table {
	const struct transition *rows;
	size_t n;
};

static struct table table_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UD:
		return TABLE(datagram_transitions);
	case IBV_QPT_UC:
		return TABLE(lossy_transitions);
	case IBV_QPT_XRC_SEND:
		return TABLE(xrc_send_transitions);
	case IBV_QPT_XRC_RECV:
		return TABLE(xrc_recv_transitions);
	default:
		return TABLE(transitions);
	}
}

static const struct transition *find_transition(enum ibv_qp_type type, enum ibv_qp_state from,
						enum ibv_qp_state to)
{
	struct table t = table_of(type);

	for (size_t i = 0; i < t.n; i++)
		if (t.rows[i].from == from && t.rows[i].to == to)
			return &t.rows[i];
	return NULL;
}

static bool transition_ok(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			  int mask)
{
	const struct transition *t = find_transition(type, from, to);

	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return !(mask & ~ANY_TIME);
	return t && (mask & t->required) == t->required &&
	       !(mask & ~(t->required | t->optional | IBV_QP_STATE));
}

static bool values_ok(const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_PORT && a->port_num != 1)
		return false;
	if (mask & IBV_QP_PKEY_INDEX && a->pkey_index)
		return false;
	if (mask & IBV_QP_AV && a->ah_attr.port_num != 1)
		return false;
	if (mask & IBV_QP_PATH_MTU && (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096))
		return false;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > DEV_MAX_RD_ATOMIC)
		return false;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && a->max_dest_rd_atomic > DEV_MAX_RD_ATOMIC)
		return false;
	if (mask & IBV_QP_RNR_RETRY && a->rnr_retry > 7)
		return false;
	if (mask & IBV_QP_RETRY_CNT && a->retry_cnt > 7)
		return false;
	return !(mask & IBV_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31) &&
	       !(mask & IBV_QP_TIMEOUT && a->timeout > 31);
}

static void merge_path(struct ibv_qp_attr *to, const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_PKEY_INDEX)
		to->pkey_index = a->pkey_index;
	if (mask & IBV_QP_PORT)
		to->port_num = a->port_num;
	if (mask & IBV_QP_AV)
		to->ah_attr = a->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		to->path_mtu = a->path_mtu;
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = a->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = a->sq_psn;
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = a->dest_qp_num;
	if (mask & IBV_QP_QKEY)
		to->qkey = a->qkey;
}

static void merge_limits(struct ibv_qp_attr *to, const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = a->qp_access_flags;
	if (mask & IBV_QP_TIMEOUT)
		to->timeout = a->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		to->retry_cnt = a->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		to->rnr_retry = a->rnr_retry;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = a->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = a->max_dest_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = a->min_rnr_timer;
}

/* Copies the attributes that a peer's engine reads into the segment. */
static void publish(struct sr_qp *qp, enum ibv_qp_state to)
{
	struct seg_qp *s = qp->s;

	sr_rq_lock(sr_peer_self, qp->slot);
	s->access = qp->attr.qp_access_flags;
	s->dest = seg_qp_name(qp->attr.dest_qp_num, seg_counterpart(qp->type));
	s->qkey = qp->attr.qkey;
	s->max_dest_rd = qp->attr.max_dest_rd_atomic;
	s->min_rnr_timer = qp->attr.min_rnr_timer;
	atomic_store(&s->state, to);
	sr_rq_unlock(sr_peer_self, qp->slot);
}

static void to_reset(struct sr_qp *qp)
{
	struct seg_qp *s = qp->s;

	sr_qp_stop_waiting(qp);
	publish(qp, IBV_QPS_RESET);
	sr_qp_drop_completions(qp);
	sr_rq_lock(sr_peer_self, qp->slot);
	atomic_store(&s->rq.posted, 0);
	atomic_store(&s->rq.head, 0);
	atomic_store(&s->rq.polled, 0);
	s->dest = 0;
	atomic_store(&s->established, 0);
	sr_rq_unlock(sr_peer_self, qp->slot);
	sr_qp_forget_late(qp);
	qp->head = qp->exec = qp->owed = 0;
	atomic_store(&qp->freed, 0);
	qp->engine->disconnect(qp);
	qp->attr = (struct ibv_qp_attr){0};
}

static void arrive(struct sr_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
		   const struct ibv_qp_attr *a, int mask, struct sr_peer *found)
{
	switch (to) {
	case IBV_QPS_RESET:
		to_reset(qp);
		break;
	case IBV_QPS_ERR:
		sr_qp_error(qp);
		break;
	case IBV_QPS_RTR:
		qp->engine->connect(qp, found);
		publish(qp, to);
		sr_qp_kick_waiter(qp->slot);
		break;
	case IBV_QPS_SQD:
		publish(qp, to);
		if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY && a->en_sqd_async_notify && from != to)
			sr_async_raise(qp->ib.qp_base.context, IBV_EVENT_SQ_DRAINED, &qp->ib);
		break;
	default:
		publish(qp, to);
		sr_qp_run(qp); /* from SQD: runs requests posted meanwhile */
		break;
	}
}

/* Ignores attributes of the other half of XRC, as modify_qp_mask() of the kernel's uverbs does. */
static int strip(const struct sr_qp *qp, int mask)
{
	if (sr_qp_is_xrc_send(qp))
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (sr_qp_is_xrc_recv(qp))
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	return mask;
}

static int modify(struct sr_qp *qp, const struct ibv_qp_attr *a, int mask,
		  const struct sr_engine *engine, struct sr_peer *found)
{
	enum ibv_qp_state from = sr_qp_state(qp);
	enum ibv_qp_state to = mask & IBV_QP_STATE ? a->qp_state : from;

	if (mask & IBV_QP_CUR_STATE && a->cur_qp_state != from)
		return EINVAL;
	if (!transition_ok(qp->type, from, to, mask) || !values_ok(a, mask))
		return EINVAL;
	merge_path(&qp->attr, a, mask);
	merge_limits(&qp->attr, a, mask);
	if (to == IBV_QPS_RTR && !sr_qp_is_datagram(qp))
		qp->engine = engine;
	arrive(qp, from, to, a, mask, found);
	qp->ib.qp_base.state = to;
	return 0;
}

SR_API int ibv_modify_qp(struct ibv_qp *ib, struct ibv_qp_attr *attr, int mask)
{
	struct sr_qp *qp = sr_qp_behind(ib);
	const struct sr_engine *engine = NULL;
	struct sr_peer *found = NULL;
	int r;

	/*
	 * May wait for the other process' helper, so the caller holds no lock, which that helper
	 * may need. A QP number that does not exist is no error: sends to it time out.
	 */
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR && sr_qp_is_datagram(qp))
		sr_engine_open();
	else if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR) {
		engine = mask & IBV_QP_AV ? sr_engine_for(attr) : sr_engine();
		found = mask & IBV_QP_DEST_QPN ? engine->find(attr->dest_qp_num) : NULL;
	}
	pthread_mutex_lock(&qp->rq_lock);
	pthread_mutex_lock(&qp->sq_lock);
	r = modify(qp, attr, strip(qp, mask), engine, found);
	ib->state = qp->ib.qp_base.state; /* ib may be another handle of it */
	pthread_mutex_unlock(&qp->sq_lock);
	pthread_mutex_unlock(&qp->rq_lock);
	sr_engine()->release(found);
	return r;
}

SR_API int ibv_query_qp(struct ibv_qp *ib, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init)
{
	struct sr_qp *qp = sr_qp_behind(ib);

	pthread_mutex_lock(&qp->sq_lock);
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = sr_qp_state(qp);
	attr->cap = qp->cap;
	ib->state = attr->qp_state;
	pthread_mutex_unlock(&qp->sq_lock);
	*init = (struct ibv_qp_init_attr){
		.qp_context = ib->qp_context,
		.send_cq = ib->send_cq,
		.recv_cq = ib->recv_cq,
		.srq = ib->srq,
		.cap = qp->cap,
		.qp_type = ib->qp_type,
		.sq_sig_all = qp->signals_all,
	};
	return 0;
}

SR_API int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}
