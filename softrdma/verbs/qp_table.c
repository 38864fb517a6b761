/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pairs of this process by slot, and operations on several of them: kicking the senders
 * that wait, and waiting until no thread uses a key that it saw before.
 */
#include "softrdma/fabric/lock.h"
#include "softrdma/process/part.h"
#include "softrdma/verbs/qp_impl.h"
#include "softrdma/verbs/qp_table.h"

/* Guards sr_qp_table against destruction. First in the order of locks. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
struct sr_qp *sr_qp_table[SEG_MAX_QP];

void sr_qp_table_lock(void)
{
	pthread_mutex_lock(&table_lock);
}

void sr_qp_table_unlock(void)
{
	pthread_mutex_unlock(&table_lock);
}

void sr_qp_kick_waiter(uint32_t slot)
{
	struct sr_qp *qp = sr_qp_table[slot];

	if (atomic_exchange(&qp->s->waiter, 0))
		qp->engine->kick(qp);
}

void sr_qp_for_each(void (*fn)(struct sr_qp *qp, uint64_t arg), uint64_t arg)
{
	uint32_t n = atomic_load(&seg_self->n_base) * 256;

	sr_qp_table_lock();
	for (uint32_t i = 0; i < n; i++)
		if (sr_qp_table[i] && sr_qp_table[i]->is_live)
			fn(sr_qp_table[i], arg);
	sr_qp_table_unlock();
}

static void kick_if_srq(struct sr_qp *qp, uint64_t srq_slot)
{
	/* Any XRC queue pair: which SRQ its sender waits for is not known here. */
	if (((qp->srq && qp->srq->slot == srq_slot) || sr_qp_is_xrc_recv(qp)) &&
	    atomic_exchange(&qp->s->waiter, 0)) {
		pthread_mutex_lock(&qp->sq_lock);
		qp->engine->kick(qp);
		pthread_mutex_unlock(&qp->sq_lock);
	}
}

void sr_qp_kick_srq_waiters(uint32_t srq_slot)
{
	sr_qp_for_each(kick_if_srq, srq_slot);
}

static void quiesce(struct sr_qp *qp, uint64_t arg)
{
	pthread_mutex_lock(&qp->sq_lock);
	pthread_mutex_unlock(&qp->sq_lock);
	sr_lock_quiesce(&qp->s->lock);
}

void sr_qp_quiesce_all(void)
{
	sr_qp_for_each(quiesce, 0);
}

static void quiesce_sender(struct sr_qp *qp, uint64_t arg)
{
	pthread_mutex_lock(&qp->sq_lock);
	pthread_mutex_unlock(&qp->sq_lock);
}

void sr_qp_quiesce_senders(void)
{
	sr_qp_for_each(quiesce_sender, 0);
}

static void forget(void)
{
	pthread_mutex_init(&table_lock, NULL);
	memset(sr_qp_table, 0, sizeof(sr_qp_table));
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
