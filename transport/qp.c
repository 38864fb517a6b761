/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a queue pair; see qp.h. Control makes it and frees it, the owner loop attaches it,
 * drains it and detaches it. qp_post.c has its works.
 */
#include <errno.h>
#include <stdlib.h>
#include <rdma/rdma_cma.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/states.h"
#include "transport/cm.h"
#include "transport/cq.h"
#include "transport/cq_poll.h"
#include "transport/qp.h"
#include "transport/qp_post.h"
#include "transport/recv_ring.h"

/* ---- making and unmaking ---- */

static int make_verbs(struct qp *qp, const struct qp_config *config)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = qp->cq->verbs,
		.recv_cq = qp->cq->verbs,
		.srq = config->shared_ring ? config->shared_ring->srq : NULL,
		.cap = {.max_send_wr = qp->depth,
			.max_recv_wr = config->shared_ring ? 0 : config->n_recv,
			.max_send_sge = config->n_sges,
			.max_recv_sge = config->shared_ring ? 0 : 2,
			.max_inline_data = config->inline_bytes},
		.qp_type = IBV_QPT_RC,
	};

	if (rdma_create_qp(qp->id, config->domain->pd, &attr)) {
		/* Not every device has inline data. */
		attr.cap.max_inline_data = 0;
		if (rdma_create_qp(qp->id, config->domain->pd, &attr))
			return -errno;
	}
	qp->verbs = qp->id->qp;
	qp->number = qp->verbs->qp_num;
	/* siw refuses an inline SEND with invalidate, but only after ibv_post_send accepted it. */
	qp->max_inline = config->domain->device->limits.is_iwarp ? 0 : attr.cap.max_inline_data;
	return 0;
}

static int make_own_ring(struct qp *qp, const struct qp_config *config)
{
	int r = recv_ring_init(&qp->own_ring, qp->cq, config->domain, false, config->n_recv,
			       config->recv_capsule_bytes, config->recv_data_bytes);

	if (r < 0)
		return r;
	qp->own_ring.qp = qp;
	qp->ring = &qp->own_ring;
	return recv_ring_add(&qp->own_ring, config->domain, config->n_recv, &qp->own_part);
}

static int make_rings(struct qp *qp, const struct qp_config *config)
{
	qp->n_ring = 1u << log2_ceil(qp->depth);
	qp->posted = calloc(qp->n_ring, sizeof(struct work *));
	if (!qp->posted)
		return -ENOMEM;
	qp->ring = config->shared_ring;
	if (qp->ring)
		return 0;
	return make_own_ring(qp, config);
}

static void report_broken(struct loop_call *call);
static void report_drained(struct loop_call *call);
static void on_quiet(struct loop_timer *timer);
static void release(struct loop_msg *msg);
static void released(struct loop_msg *msg);

int qp_init(struct qp *qp, struct rdma_cm_id *id, const struct qp_config *config)
{
	int r;

	*qp = (struct qp){
		.cq = config->cq,
		.id = id,
		.depth = MIN(config->send_depth, config->domain->device->limits.max_qp_wr),
		.unposted_call = {.run = qp_complete_unposted},
		.broken_call = {.run = report_broken},
		.drained_call = {.run = report_drained},
		.quiet = {.on_expiry = on_quiet},
		.release_msg = {.run = release},
		.released_msg = {.run = released},
	};
	qp->ahead.qp = qp;
	/* siw sends unsignaled data without a copy and completes it before TCP has read it. A
	 * buffer that is reused at once would be sent with its new content. */
	qp->signal_every = config->domain->device->limits.is_iwarp ? 1 : qp->depth / 4;
	list_init(&qp->dirty);
	list_init(&qp->credited);
	r = cq_reserve(qp->cq, qp->depth);
	if (r < 0) {
		*qp = (struct qp){0};
		return r;
	}
	r = make_rings(qp, config);
	if (r == 0)
		r = make_verbs(qp, config);
	if (r < 0)
		qp_deinit(qp);
	return r;
}

void qp_deinit(struct qp *qp)
{
	if (!qp->cq)
		return;
	check(!qp_is_attached(qp->state));
	if (qp->verbs)
		rdma_destroy_qp(qp->id);
	recv_ring_deinit(&qp->own_ring);
	free(qp->posted);
	cq_release(qp->cq, qp->depth);
	*qp = (struct qp){0};
}

int qp_attach(struct qp *qp)
{
	int r = cq_attach(qp->cq, qp);

	if (r < 0)
		return r;
	qp_move(qp, QP_LIVE);
	return qp->own_part ? recv_part_post(qp->own_part) : 0;
}

void qp_detach(struct qp *qp)
{
	check(qp->n_posted == 0 && !qp->chain);
	list_remove(&qp->dirty);
	list_remove(&qp->credited);
	loop_call_cancel(&qp->unposted_call);
	loop_call_cancel(&qp->broken_call);
	loop_call_cancel(&qp->drained_call);
	loop_timer_stop(&qp->quiet);
	if (qp->hold != QP_RELEASED)
		cq_detach(qp->cq, qp);
	qp_move(qp, QP_DETACHED);
}

static void report_broken(struct loop_call *call)
{
	struct qp *qp = container_of(call, struct qp, broken_call);

	if (!qp_is_draining(qp->state) && qp->on_broken)
		qp->on_broken(qp, &qp->cause);
}

void qp_drain(struct qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	check(!qp_is_draining(qp->state));
	if (!qp_is_broken(qp->state))
		qp_flush(qp); /* which may break it */
	qp_move(qp, QP_DRAINING);
	qp_drop_chain(qp);
	if (ibv_modify_qp(qp->verbs, &attr, IBV_QP_STATE))
		log_debug("qp %u: cannot move to the error state: %s", qp->number, strerror(errno));
	qp_post_marker(qp);
	qp_check_drained(qp);
}

/* ---- lost work requests ---- */

static const struct state_rule holds[] = {
	[QP_HELD] = {"held", STATE_TO(QP_RELEASING)},
	[QP_RELEASING] = {"releasing", STATE_TO(QP_RELEASED)},
	[QP_RELEASED] = {"released", 0},
};

/*
 * Not every device completes every request. siw loses those that are posted in the error state (it
 * flushes the others before ibv_modify_qp returns), a removed device completes none, and a faulty
 * device may lose one. That no completion arrives is no proof: the device may still read and write
 * the memory. Only the destruction of the queue pair ends that, and the control thread does it.
 */
static void on_quiet(struct loop_timer *timer)
{
	struct qp *qp = container_of(timer, struct qp, quiet);

	qp->n_lost = qp->n_posted - qp->n_unposted;
	qp->n_lost_receives = qp->own_ring.n_posted;
	if (!qp->n_lost && !qp->n_lost_receives)
		return; /* the device has nothing; a deferred call completes the rest */
	states_move("queue pair's hold", holds, &qp->hold, QP_RELEASING);
	loop_send(cm_control_loop(qp->id), &qp->release_msg);
}

/* siw loses each marker; a removed device completes nothing. Any other loss is a fault. */
static bool is_loss_expected(const struct qp *qp)
{
	const struct device *device = qp->cq->device;

	return device->is_removed || (device->limits.is_iwarp && qp->n_lost <= 1);
}

/* Control thread. It owns verbs and the counts of losses; the owner loop has the rest of qp. */
static void release(struct loop_msg *msg)
{
	struct qp *qp = container_of(msg, struct qp, release_msg);
	struct device *device = qp->cq->device;
	bool is_expected = is_loss_expected(qp);

	device->n_releases += !is_expected;
	log_write(
		is_expected ? LOG_DEBUG : LOG_WARN,
		"%s: queue pair %u did not bring back %u work requests and %u receives; it is destroyed to end them (%u times so far)",
		device->name, qp->number, qp->n_lost, qp->n_lost_receives, device->n_releases);
	rdma_destroy_qp(qp->id);
	loop_send(qp->cq->loop, &qp->released_msg);
}

/*
 * Owner loop. Takes the last completions, which can only be in the completion queue by now. Then
 * removes the number from the queue's table, since the device may reuse it. Flushes the rest.
 */
static void released(struct loop_msg *msg)
{
	struct qp *qp = container_of(msg, struct qp, released_msg);

	states_move("queue pair's hold", holds, &qp->hold, QP_RELEASED);
	qp->verbs = NULL;
	cq_poll_all(qp->cq);
	cq_detach(qp->cq, qp);
	qp->own_ring.n_posted = 0;
	qp->n_unposted = qp->n_posted;
	qp->n_settled = 0;
	qp_complete_unposted(&qp->unposted_call);
}

static void report_drained(struct loop_call *call)
{
	struct qp *qp = container_of(call, struct qp, drained_call);

	if (qp_has_drained(qp->state))
		return;
	qp_move(qp, QP_DRAINED);
	loop_timer_stop(&qp->quiet);
	qp->on_drained(qp);
}
