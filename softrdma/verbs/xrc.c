/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC domains, handles of XRC_RECV queue pairs, and how these let go of an SRQ; see xrc.h.
 *
 * Whether a file's domain is open is read from the tables of all processes of this user. Two that
 * open it at the same time may both find none: O_EXCL does not exclude then.
 */
#include "softrdma/verbs/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "softrdma/fabric/peer.h"
#include "softrdma/fabric/rq.h"
#include "softrdma/fabric/seek.h"
#include "softrdma/process/likeness.h"
#include "softrdma/process/part.h"
#include "softrdma/verbs/async.h"
#include "softrdma/verbs/qp_table.h"
#include "softrdma/verbs/removal.h"
#include "softrdma/verbs/srq.h"
#include "softrdma/verbs/wr_ex.h"

#define PEERS_MAX 256

/* Guards this process' seg.domain. Leaf. */
static pthread_mutex_t domains_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_private;

/* ---- domains -------------------------------------------------------------- */

static bool is_open_in(const struct seg *s, const struct seg_domain *name)
{
	for (uint32_t i = 0; i < SEG_MAX_DOMAIN; i++)
		if (atomic_load(&s->domain[i].is_open) && seg_domain_is(&s->domain[i].name, name))
			return true;
	return false;
}

static bool is_open(const struct seg_domain *name)
{
	struct sr_peer *peers[PEERS_MAX];
	bool found = false;
	unsigned n;

	sr_peer_meet_all();
	n = sr_peer_list(peers, PEERS_MAX);
	for (unsigned i = 0; i < n; i++) {
		found = found ||
			(!atomic_load(&peers[i]->is_dead) && seg_owner_lives(peers[i]->seg) &&
			 is_open_in(peers[i]->seg, name));
		sr_peer_unref(peers[i]);
	}
	return found;
}

/* The domain that the attributes name. The errors are the kernel's (ib_uverbs_open_xrcd). */
static int name_domain(const struct ibv_xrcd_init_attr *a, struct seg_domain *ret)
{
	const uint32_t both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct stat st;
	bool exists;

	if (a->comp_mask != both || a->oflags & ~(O_CREAT | O_EXCL))
		return EINVAL;
	if (a->fd == -1) {
		pthread_mutex_lock(&domains_lock);
		*ret = (struct seg_domain){UINT64_MAX, seg_self->instance + ++last_private};
		pthread_mutex_unlock(&domains_lock);
		return a->oflags & O_CREAT ? 0 : EAGAIN;
	}
	if (fstat(a->fd, &st))
		return EBADF;
	*ret = (struct seg_domain){st.st_dev, st.st_ino};
	exists = is_open(ret);
	if (!exists && !(a->oflags & O_CREAT))
		return EAGAIN;
	return exists && a->oflags & O_EXCL ? EINVAL : 0;
}

static int take_slot(struct sr_xrcd *x)
{
	int err = ENOMEM;

	pthread_mutex_lock(&domains_lock);
	for (uint32_t i = 0; i < SEG_MAX_DOMAIN && err; i++) {
		struct seg_open_domain *d = &seg_self->domain[i];

		if (atomic_load(&d->is_open))
			continue;
		x->slot = i;
		d->name = x->name;
		atomic_store(&d->is_open, 1);
		err = 0;
	}
	pthread_mutex_unlock(&domains_lock);
	return err;
}

struct ibv_xrcd *sr_xrcd_open(struct ibv_context *c, struct ibv_xrcd_init_attr *a)
{
	struct sr_xrcd *x = calloc(1, sizeof(*x));

	if (!x) {
		errno = ENOMEM;
		return NULL;
	}
	x->ib.context = c;
	errno = sr_is_siw() ? EOPNOTSUPP : name_domain(a, &x->name);
	if (!errno)
		errno = take_slot(x);
	if (errno) {
		free(x);
		return NULL;
	}
	sr_removal_hold(HOLD_XRCD);
	return &x->ib;
}

int sr_xrcd_close(struct ibv_xrcd *ib)
{
	struct sr_xrcd *x = sr_to_xrcd(ib);

	if (atomic_load(&x->users))
		return EBUSY;
	atomic_store(&seg_self->domain[x->slot].is_open, 0);
	free(x);
	sr_removal_unhold(HOLD_XRCD);
	return 0;
}

/* ---- handles --------------------------------------------------------------- */

static int check_open(const struct ibv_qp_open_attr *a)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
				IBV_QP_OPEN_ATTR_TYPE;

	if (sr_is_siw())
		return EOPNOTSUPP;
	if ((a->comp_mask & needed) != needed ||
	    a->comp_mask & ~(needed | (uint32_t)IBV_QP_OPEN_ATTR_CONTEXT) || !a->xrcd ||
	    a->qp_type != IBV_QPT_XRC_RECV)
		return EINVAL;
	return 0;
}

/* Under the table lock: the queue pair of that number in the domain, or NULL. */
static struct sr_qp *find_in(uint32_t qpn, const struct sr_xrcd *x)
{
	struct sr_qp *qp = sr_qp_table[seg_qp_slot(seg_self, qpn)];

	if (!qp || !qp->is_live || !sr_qp_is_xrc_recv(qp) || qp->ib.qp_base.qp_num != qpn ||
	    !seg_domain_is(&qp->xrcd->name, &x->name))
		return NULL;
	return qp;
}

static void fill_handle(struct sr_qp *h, struct ibv_context *c, const struct ibv_qp_open_attr *a,
			struct sr_qp *qp)
{
	h->ib.qp_base = (struct ibv_qp){
		.context = c,
		.qp_context = a->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? a->qp_context : NULL,
		.handle = qp->slot,
		.qp_num = a->qp_num,
		.state = sr_qp_state(qp),
		.qp_type = IBV_QPT_XRC_RECV,
	};
	h->behind = qp;
	h->type = IBV_QPT_XRC_RECV;
	h->slot = qp->slot;
	h->s = qp->s;
	h->xrcd = sr_to_xrcd(a->xrcd);
	h->opened = qp->opened;
	qp->opened = h;
}

/* EOPNOTSUPP: another process has it, where this one cannot change it. */
static int why_absent(uint32_t qpn)
{
	struct sr_peer *p = NULL;
	bool is_ours;

	if (sr_peer_by_qpn(qpn, &p))
		return EINVAL;
	is_ours = p == sr_peer_self;
	sr_peer_unref(p);
	return is_ours ? EINVAL : EOPNOTSUPP;
}

struct ibv_qp *sr_qp_open(struct ibv_context *c, struct ibv_qp_open_attr *a)
{
	int err = check_open(a);
	struct sr_qp *h = err ? NULL : calloc(1, sizeof(*h)), *qp;

	if (!h) {
		errno = err ? err : ENOMEM;
		return NULL;
	}
	pthread_mutex_init(&h->sq_lock, NULL);
	pthread_mutex_init(&h->rq_lock, NULL);
	pthread_mutex_init(&h->ib.qp_base.mutex, NULL);
	pthread_cond_init(&h->ib.qp_base.cond, NULL);
	sr_qp_ex_init(h);
	sr_qp_table_lock();
	qp = find_in(a->qp_num, sr_to_xrcd(a->xrcd));
	if (qp)
		fill_handle(h, c, a, qp);
	sr_qp_table_unlock();
	if (!qp) {
		free(h);
		errno = why_absent(a->qp_num);
		return NULL;
	}
	atomic_fetch_add(&h->xrcd->users, 1);
	sr_removal_hold(HOLD_QP);
	return &h->ib.qp_base;
}

static void unlink_handle(struct sr_qp *h)
{
	struct sr_qp **p = &h->behind->opened;

	while (*p != h)
		p = &(*p)->opened;
	*p = h->opened;
}

static void free_handle(struct sr_qp *h)
{
	pthread_mutex_destroy(&h->sq_lock);
	pthread_mutex_destroy(&h->rq_lock);
	pthread_mutex_destroy(&h->ib.qp_base.mutex);
	pthread_cond_destroy(&h->ib.qp_base.cond);
	atomic_fetch_sub(&h->xrcd->users, 1);
	free(h);
	sr_removal_unhold(HOLD_QP);
}

bool sr_xrc_drop_handle(struct ibv_qp *ib)
{
	struct sr_qp *h = sr_to_qp(ib), *qp = sr_qp_behind(ib);
	bool is_last;

	sr_qp_table_lock();
	if (h == qp)
		qp->is_dropped = true;
	else
		unlink_handle(h);
	is_last = qp->is_dropped && !qp->opened;
	if (is_last)
		qp->is_live = false; /* no more handles of it */
	sr_qp_table_unlock();
	sr_async_forget_qp(ib, &h->async_delivered);
	if (h != qp)
		free_handle(h);
	return is_last;
}

void sr_xrc_raise(struct sr_qp *qp, enum ibv_event_type type)
{
	if (!qp->is_dropped)
		sr_async_raise(qp->ib.qp_base.context, type, &qp->ib);
	for (struct sr_qp *h = qp->opened; h; h = h->opened)
		sr_async_raise(h->ib.qp_base.context, type, &h->ib);
}

/* ---- receives -------------------------------------------------------------- */

void sr_xrc_forget_srq(uint32_t srq_slot)
{
	uint32_t n = atomic_load(&seg_self->n_base) * 256;

	for (uint32_t i = 0; i < n; i++) {
		struct seg_qp *q = &seg_self->qp[i];

		if (atomic_load(&q->type) != IBV_QPT_XRC_RECV)
			continue;
		sr_rq_lock(sr_peer_self, i); /* a delivery that has found the SRQ ends first */
		if (q->srq == srq_slot + 1) {
			atomic_store(&q->claim, 0);
			q->srq = 0;
		}
		sr_rq_unlock(sr_peer_self, i);
	}
}

void sr_xrc_unclaim(struct sr_qp *qp)
{
	uint32_t claimed;

	sr_rq_lock(sr_peer_self, qp->slot);
	claimed = sr_rq_unclaim(qp->slot);
	if (claimed != UINT32_MAX)
		sr_srq_give(sr_srq_at(qp->s->srq - 1), claimed);
	qp->s->srq = 0;
	sr_rq_unlock(sr_peer_self, qp->slot);
}

static void forget(void)
{
	pthread_mutex_init(&domains_lock, NULL);
}

static const struct sr_part part = {.forget = forget};
SR_PART(part);
