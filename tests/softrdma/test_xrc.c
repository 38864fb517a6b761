/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended reliable connections (XRC): the sender names the shared receive queue for which each
 * message is. Sources: IBA annex A14, 9.7 (transport), 10.3.1 and the kernel's ib_modify_qp_is_ok()
 * (states), ibv_open_xrcd(3), ibv_create_srq_ex(3), ibv_open_qp(3), ibv_wr_post(3), the kernel's
 * ib_uverbs_open_xrcd() (errors).
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	DEPTH = 8,
	LEN = 2000, /* more than a completion holds */
};

/* A receive queue, its completions, and memory of its own protection domain. */
struct sink {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint32_t number;
	uint8_t *buf;
};

struct world {
	struct rig rig; /* its device and domain, and the sender's memory a */
	struct ibv_xrcd *xrcd;
	struct ibv_qp *send, *recv;
	struct sink one, two;
};

static struct ibv_xrcd *open_domain(struct ibv_context *c, int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
						    IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = fd,
				       .oflags = oflags};

	errno = 0;
	return ibv_open_xrcd(c, &a);
}

static struct ibv_srq *new_srq(struct world *w, struct sink *s, struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex a = {.attr = {.max_wr = DEPTH, .max_sge = 1},
					 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
						      IBV_SRQ_INIT_ATTR_XRCD |
						      IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
					 .srq_type = IBV_SRQT_XRC,
					 .pd = s->pd,
					 .cq = s->cq,
					 .xrcd = xrcd};

	return ibv_create_srq_ex(w->rig.ctx, &a);
}

static void open_sink(struct world *w, struct sink *s)
{
	const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	s->pd = ibv_alloc_pd(w->rig.ctx);
	s->cq = ibv_create_cq(w->rig.ctx, 4 * DEPTH, NULL, NULL, 0);
	s->buf = calloc(1, RIG_BUF);
	s->mr = ibv_reg_mr(s->pd, s->buf, RIG_BUF, (int)access);
	s->srq = new_srq(w, s, w->xrcd);
	assert_non_null(s->srq);
	assert_int_equal(ibv_get_srq_num(s->srq, &s->number), 0);
}

static void close_sink(struct sink *s)
{
	if (s->srq)
		assert_int_equal(ibv_destroy_srq(s->srq), 0);
	assert_int_equal(ibv_dereg_mr(s->mr), 0);
	assert_int_equal(ibv_destroy_cq(s->cq), 0);
	assert_int_equal(ibv_dealloc_pd(s->pd), 0);
	free(s->buf);
}

static struct ibv_qp *new_send(struct world *w)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = w->rig.a.scq,
		.cap = {.max_send_wr = DEPTH, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ,
		.pd = w->rig.pd};

	return ibv_create_qp_ex(w->rig.ctx, &a);
}

static struct ibv_qp *new_recv(struct world *w, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	return ibv_create_qp_ex(w->rig.ctx, &a);
}

static void connect(struct ibv_qp *send, struct ibv_qp *recv)
{
	assert_int_equal(to_init(send), 0);
	assert_int_equal(to_init(recv), 0);
	assert_int_equal(to_rtr(send, recv->qp_num), 0);
	assert_int_equal(to_rtr(recv, send->qp_num), 0);
	assert_int_equal(to_rts(recv), 0);
	assert_int_equal(to_rts(send), 0);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	rig_opts.rd_atomic = 4;
	rig_up(&w->rig);
	w->xrcd = open_domain(w->rig.ctx, -1, O_CREAT);
	assert_non_null(w->xrcd);
	open_sink(w, &w->one);
	open_sink(w, &w->two);
	w->send = new_send(w);
	w->recv = new_recv(w, w->xrcd);
	assert_non_null(w->send);
	assert_non_null(w->recv);
	connect(w->send, w->recv);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	assert_int_equal(ibv_destroy_qp(w->send), 0);
	if (w->recv)
		assert_int_equal(ibv_destroy_qp(w->recv), 0);
	close_sink(&w->one);
	close_sink(&w->two);
	assert_int_equal(ibv_close_xrcd(w->xrcd), 0);
	rig_down(&w->rig);
	free(w);
	return 0;
}

/* ---- what tests do ------------------------------------------------------------------------- */

static void post_recv(struct sink *s, uint64_t id, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)s->buf, len, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(s->srq, &wr, &bad), 0);
}

static int post(struct world *w, enum ibv_wr_opcode op, uint64_t id, uint32_t len, uint32_t srqn,
		const struct sink *remote, const struct ibv_mr *key)
{
	struct ibv_sge sge = {(uintptr_t)w->rig.a.buf, len, w->rig.a.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id,
				 .opcode = op,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = (uint32_t)id,
				 .qp_type.xrc.remote_srqn = srqn};
	struct ibv_send_wr *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote->buf;
		wr.wr.atomic.rkey = key->rkey;
		wr.wr.atomic.compare_add = 5;
	} else if (remote) {
		wr.wr.rdma.remote_addr = (uintptr_t)remote->buf;
		wr.wr.rdma.rkey = key->rkey;
	}
	return ibv_post_send(w->send, &wr, &bad);
}

static void send_to(struct world *w, uint64_t id, uint32_t len, const struct sink *s)
{
	for (uint32_t i = 0; i < len; i++)
		w->rig.a.buf[i] = (uint8_t)(id + i * 7);
	assert_int_equal(post(w, IBV_WR_SEND, id, len, s->number, NULL, NULL), 0);
	expect_wc(w->rig.a.scq, id, IBV_WC_SUCCESS);
}

static void expect_received(struct world *w, struct sink *s, uint64_t id, uint32_t len)
{
	struct ibv_wc wc = next_wc(s->cq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.byte_len, len);
	assert_int_equal(wc.src_qp, w->send->qp_num);
	assert_memory_equal(s->buf, w->rig.a.buf, len);
}

/* The request fails as one that is invalid, and the receiving half ends with an event. */
static void expect_refused(struct world *w, uint32_t srqn)
{
	assert_int_equal(post(w, IBV_WR_SEND, 99, 8, srqn, NULL, NULL), 0);
	expect_wc(w->rig.a.scq, 99, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(next_async(&w->rig), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(state_of(w->send), IBV_QPS_ERR);
	assert_int_equal(state_of(w->recv), IBV_QPS_ERR);
	expect_empty(w->one.cq);
	expect_empty(w->two.cq);
	assert_int_equal(to_state(w->send, IBV_QPS_RESET), 0);
	assert_int_equal(to_state(w->recv, IBV_QPS_RESET), 0);
	connect(w->send, w->recv);
}

/* ---- where messages go ---------------------------------------------------------------------- */

static void messages_take_the_queue_that_they_name(void **state)
{
	struct world *w = *state;

	for (uint64_t id = 1; id <= 3ULL * DEPTH; id++) {
		struct sink *s = id % 3 ? &w->one : &w->two, *other = id % 3 ? &w->two : &w->one;
		uint32_t len = id % 2 ? 40 : LEN;

		post_recv(s, id, LEN);
		send_to(w, id, len, s);
		expect_received(w, s, id, len);
		expect_empty(other->cq);
	}
}

/* One receiving half serves a process, and two of them one queue. */
static void several_senders_share_a_queue(void **state)
{
	struct world *w = *state;
	struct ibv_qp *send = w->send, *other = new_send(w), *recv = new_recv(w, w->xrcd);

	connect(other, recv);
	for (uint64_t id = 1; id <= DEPTH; id++)
		post_recv(&w->one, id, LEN);
	for (uint64_t id = 1; id <= DEPTH; id++) {
		w->send = id % 2 ? send : other;
		send_to(w, id, 100, &w->one);
		expect_received(w, &w->one, id, 100);
	}
	w->send = send;
	assert_int_equal(ibv_destroy_qp(other), 0);
	assert_int_equal(ibv_destroy_qp(recv), 0);
}

static void extended_posting(void **state)
{
	struct world *w = *state;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(w->send), *rc = ibv_qp_to_qp_ex(w->rig.a.qp);

	post_recv(&w->two, 5, LEN);
	ibv_wr_start(ex);
	ex->wr_id = 5;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, w->two.number);
	ibv_wr_set_sge(ex, w->rig.a.mr->lkey, (uintptr_t)w->rig.a.buf, 100);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect_wc(w->rig.a.scq, 5, IBV_WC_SUCCESS);
	expect_received(w, &w->two, 5, 100);
	ibv_wr_start(rc);
	ibv_wr_send(rc);
	ibv_wr_set_xrc_srqn(rc, w->two.number);
	assert_int_equal(ibv_wr_complete(rc), EINVAL);
}

/* A queue without a receive holds the sender back, whatever the other one has. */
static void waits_for_a_receive_of_that_queue(void **state)
{
	struct world *w = *state;

	post_recv(&w->one, 1, LEN);
	assert_int_equal(post(w, IBV_WR_SEND, 2, LEN, w->two.number, NULL, NULL), 0);
	expect_empty(w->rig.a.scq);
	post_recv(&w->two, 2, LEN);
	expect_wc(w->rig.a.scq, 2, IBV_WC_SUCCESS);
	assert_int_equal(next_wc(w->two.cq).wr_id, 2);
	send_to(w, 3, LEN, &w->one);
	expect_received(w, &w->one, 1, LEN);
}

/* IBA A14: the protection domain is that of the queue that the request names. */
static void keys_belong_to_the_domain_of_the_queue(void **state)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct world *w = *state;

	for (unsigned i = 0; i < n_of(ops); i++) {
		struct sink *s = i % 2 ? &w->one : &w->two, *other = i % 2 ? &w->two : &w->one;

		assert_int_equal(post(w, ops[i], 7, 8, s->number, s, s->mr), 0);
		expect_wc(w->rig.a.scq, 7, IBV_WC_SUCCESS);
		assert_int_equal(post(w, ops[i], 8, 8, other->number, s, s->mr), 0);
		expect_wc(w->rig.a.scq, 8, IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(next_async(&w->rig), IBV_EVENT_QP_ACCESS_ERR);
		assert_int_equal(to_state(w->send, IBV_QPS_RESET), 0);
		assert_int_equal(to_state(w->recv, IBV_QPS_RESET), 0);
		connect(w->send, w->recv);
	}
	post_recv(&w->one, 9, LEN);
	assert_int_equal(
		post(w, IBV_WR_RDMA_WRITE_WITH_IMM, 9, 8, w->one.number, &w->one, w->one.mr), 0);
	expect_wc(w->rig.a.scq, 9, IBV_WC_SUCCESS);
	assert_int_equal(next_wc(w->one.cq).opcode, IBV_WC_RECV_RDMA_WITH_IMM);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void unknown_queues(void **state)
{
	struct world *w = *state;
	struct ibv_xrcd *other = open_domain(w->rig.ctx, -1, O_CREAT);
	struct ibv_srq_init_attr basic = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(w->rig.pd, &basic);
	struct sink foreign = w->one;
	uint32_t number;

	foreign.srq = new_srq(w, &foreign, other);
	assert_int_equal(ibv_get_srq_num(foreign.srq, &foreign.number), 0);
	assert_int_equal(ibv_get_srq_num(srq, &number), EINVAL);
	post_recv(&w->one, 1, LEN);
	post_recv(&foreign, 2, LEN);
	expect_refused(w, 0);
	expect_refused(w, 0xffffff);
	number = w->recv->qp_num; /* chosen at random: an SRQ may have the same one */
	if (number != w->one.number && number != w->two.number)
		expect_refused(w, number);
	expect_refused(w, foreign.number);			      /* another domain's */
	expect_refused(w, (foreign.number & 0xffff00) | srq->handle); /* no XRC queue */
	assert_int_equal(ibv_destroy_srq(foreign.srq), 0);
	expect_refused(w, foreign.number);
	send_to(w, 3, LEN, &w->one);
	expect_received(w, &w->one, 1, LEN);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(other), 0);
}

static void too_short_a_receive(void **state)
{
	struct world *w = *state;

	post_recv(&w->one, 1, 8);
	assert_int_equal(post(w, IBV_WR_SEND, 2, LEN, w->one.number, NULL, NULL), 0);
	expect_wc(w->rig.a.scq, 2, IBV_WC_REM_INV_REQ_ERR);
	expect_wc(w->one.cq, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(next_async(&w->rig), IBV_EVENT_QP_REQ_ERR);
}

/* The receiving half has no queues of its own, and the sending half no receives. */
static void posting_to_the_wrong_half(void **state)
{
	struct world *w = *state;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr recv = {0}, *bad;

	assert_int_equal(ibv_post_send(w->recv, &send, &bad_send), EINVAL);
	assert_int_equal(ibv_post_recv(w->recv, &recv, &bad), EINVAL);
	assert_int_equal(ibv_post_recv(w->send, &recv, &bad), EINVAL);
}

/* The kernel's ib_modify_qp_is_ok(), behind modify_qp_mask() of uverbs, which ignores attributes of
 * the other half. */
static void expect_required(struct ibv_qp *qp, struct ibv_qp_attr *a, int required)
{
	for (int bit = 1; bit <= required; bit <<= 1)
		if (bit & required)
			assert_int_equal(ibv_modify_qp(qp, a, IBV_QP_STATE | (required & ~bit)),
					 EINVAL);
	assert_int_equal(ibv_modify_qp(qp, a, IBV_QP_STATE | required | IBV_QP_QKEY), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, a, IBV_QP_STATE | required), 0);
}

static void attributes_of_each_half(void **state)
{
	const int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	const int responder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int requester = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	struct world *w = *state;
	struct ibv_qp *qps[2] = {new_send(w), new_recv(w, w->xrcd)};
	struct ibv_qp_attr a = {.port_num = 1,
				.path_mtu = IBV_MTU_1024,
				.ah_attr = {.port_num = 1, .is_global = 1}};

	for (int is_recv = 0; is_recv < 2; is_recv++) {
		struct ibv_qp *qp = qps[is_recv];

		a.qp_state = IBV_QPS_INIT;
		expect_required(qp, &a, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
		a.qp_state = IBV_QPS_RTR;
		expect_required(qp, &a, path | (is_recv ? responder : 0));
		a.qp_state = IBV_QPS_RTS;
		expect_required(qp, &a, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | (is_recv ? 0 : requester));
		assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_MIN_RNR_TIMER), 0);
		assert_int_equal(to_state(qp, IBV_QPS_SQD), 0);
		assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_RETRY_CNT | IBV_QP_TIMEOUT), 0);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

/* Two sending halves, or a half and a whole, are no connection. */
static void other_kinds_do_not_answer(void **state)
{
	struct world *w = *state;
	struct ibv_qp *a = new_send(w), *b = new_send(w);

	rig_opts.retry_cnt = 1;
	rig_opts.timeout = 10;
	connect(a, b);
	w->rig.a.buf[0] = 1;
	post_recv(&w->one, 1, LEN);
	struct ibv_qp *send = w->send;
	w->send = a;
	assert_int_equal(post(w, IBV_WR_SEND, 2, 8, w->one.number, NULL, NULL), 0);
	expect_wc(w->rig.a.scq, 2, IBV_WC_RETRY_EXC_ERR);
	w->send = send;
	expect_empty(w->one.cq);
	assert_int_equal(ibv_destroy_qp(a), 0);
	assert_int_equal(ibv_destroy_qp(b), 0);
}

/* ---- lives ---------------------------------------------------------------------------------- */

/* Completions are the queue's: they stay when the half that took the receive is gone. */
static void completions_outlive_the_queue_pair(void **state)
{
	struct world *w = *state;

	post_recv(&w->one, 1, LEN);
	send_to(w, 1, 40, &w->one);
	assert_int_equal(ibv_destroy_qp(w->recv), 0);
	w->recv = NULL;
	expect_received(w, &w->one, 1, 40);
}

static void completions_vanish_with_the_queue(void **state)
{
	struct world *w = *state;

	post_recv(&w->one, 1, LEN);
	post_recv(&w->one, 2, LEN);
	send_to(w, 1, 40, &w->one);
	assert_int_equal(ibv_destroy_srq(w->one.srq), 0);
	w->one.srq = NULL;
	expect_empty(w->one.cq);
	expect_refused(w, w->one.number);
}

static struct ibv_qp *open_handle(struct world *w, uint32_t qpn, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_open_attr a = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						  IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
				     .qp_num = qpn,
				     .xrcd = xrcd,
				     .qp_context = w,
				     .qp_type = IBV_QPT_XRC_RECV};

	errno = 0;
	return ibv_open_qp(w->rig.ctx, &a);
}

/* A queue pair lives until its last handle is destroyed, the one that made it or another. */
static void handles_of_a_queue_pair(void **state)
{
	struct world *w = *state;
	struct ibv_qp *handle = open_handle(w, w->recv->qp_num, w->xrcd);
	struct ibv_recv_wr recv = {0}, *bad;

	assert_non_null(handle);
	assert_int_equal(handle->qp_num, w->recv->qp_num);
	assert_ptr_equal(handle->qp_context, w);
	assert_int_equal(ibv_post_recv(handle, &recv, &bad), EINVAL);
	assert_int_equal(ibv_destroy_qp(w->recv), 0);
	post_recv(&w->one, 1, LEN);
	send_to(w, 1, LEN, &w->one);
	expect_received(w, &w->one, 1, LEN);
	w->recv = handle;
	expect_refused(w, 0); /* the handle gets the event, and changes the state */
	assert_null(open_handle(w, w->send->qp_num, w->xrcd));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_qp(handle), 0);
	assert_null(open_handle(w, w->send->qp_num + 1, w->xrcd));
	assert_int_equal(errno, EINVAL);
	w->recv = NULL;
}

static void events_for_each_handle(void **state)
{
	struct world *w = *state;
	struct ibv_qp *handle = open_handle(w, w->recv->qp_num, w->xrcd);
	struct ibv_async_event ev[2];

	assert_int_equal(post(w, IBV_WR_SEND, 99, 8, 0, NULL, NULL), 0);
	expect_wc(w->rig.a.scq, 99, IBV_WC_REM_INV_REQ_ERR);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_get_async_event(w->rig.ctx, &ev[i]), 0);
		assert_int_equal(ev[i].event_type, IBV_EVENT_QP_REQ_ERR);
		ibv_ack_async_event(&ev[i]);
	}
	assert_true(ev[0].element.qp == handle || ev[1].element.qp == handle);
	assert_true(ev[0].element.qp == w->recv || ev[1].element.qp == w->recv);
	assert_int_equal(ibv_destroy_qp(handle), 0);
}

static void domain_of_a_file(void **state)
{
	struct world *w = *state;
	int fd = memfd_create("xrc", MFD_CLOEXEC), other_fd = memfd_create("xrc", MFD_CLOEXEC);
	struct ibv_xrcd *first, *second, *other;
	struct ibv_qp *qp, *handle;

	assert_null(open_domain(w->rig.ctx, -1, 0));
	assert_int_equal(errno, EAGAIN);
	assert_null(open_domain(w->rig.ctx, fd, 0));
	assert_int_equal(errno, EAGAIN);
	assert_null(open_domain(w->rig.ctx, 1 << 20, O_CREAT));
	assert_int_equal(errno, EBADF);
	first = open_domain(w->rig.ctx, fd, O_CREAT | O_EXCL);
	assert_non_null(first);
	assert_null(open_domain(w->rig.ctx, fd, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	second = open_domain(w->rig.ctx, fd, 0);
	other = open_domain(w->rig.ctx, other_fd, O_CREAT);
	qp = new_recv(w, first);
	handle = open_handle(w, qp->qp_num, second);
	assert_non_null(handle);
	assert_null(open_handle(w, qp->qp_num, other));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_close_xrcd(first), EBUSY);
	assert_int_equal(ibv_close_xrcd(second), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(handle), 0);
	assert_int_equal(ibv_close_xrcd(first), 0);
	assert_int_equal(ibv_close_xrcd(second), 0);
	assert_int_equal(ibv_close_xrcd(other), 0);
	close(fd);
	close(other_fd);
}

/* ---- two processes -------------------------------------------------------------------------- */

struct numbers {
	uint32_t qpn, srqn;
};

/* The other process has a queue pair and a queue in the file's domain until it reads a byte. */
static void be_other(int fd, int in, int out)
{
	struct world w = {0};
	struct numbers n;
	char byte;

	rig_up(&w.rig);
	w.xrcd = open_domain(w.rig.ctx, fd, O_CREAT);
	open_sink(&w, &w.one);
	w.recv = new_recv(&w, w.xrcd);
	n = (struct numbers){w.recv->qp_num, w.one.number};
	if (write(out, &n, sizeof(n)) != sizeof(n) || read(in, &byte, 1) != 1)
		_exit(1);
	_exit(0);
}

/* The domain is the same one, but a queue pair delivers to its own process only, and only that one
 * changes it: others are told so. */
static void domain_shared_by_processes(void **state)
{
	int there[2], back[2], fd = memfd_create("xrc", 0), status;
	struct numbers n;
	struct world *w;
	void *made;
	pid_t pid;

	assert_int_equal(pipe(there) | pipe(back), 0);
	pid = fork();
	if (!pid)
		be_other(fd, there[0], back[1]);
	assert_int_equal(read(back[0], &n, sizeof(n)), sizeof(n));
	setup(&made);
	w = made;
	assert_null(open_domain(w->rig.ctx, fd, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_qp(w->recv), 0);
	assert_int_equal(to_state(w->send, IBV_QPS_RESET), 0);
	struct ibv_xrcd *shared = open_domain(w->rig.ctx, fd, 0);
	assert_non_null(shared);
	assert_null(open_handle(w, n.qpn, shared));
	assert_int_equal(errno, EOPNOTSUPP);
	w->recv = new_recv(w, shared);
	connect(w->send, w->recv);
	expect_refused(w, n.srqn);
	assert_int_equal(write(there[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_null(open_domain(w->rig.ctx, fd, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL); /* still open here */
	assert_int_equal(ibv_destroy_qp(w->recv), 0);
	w->recv = NULL;
	assert_int_equal(ibv_close_xrcd(shared), 0);
	assert_null(open_domain(w->rig.ctx, fd, 0)); /* the dead process has it no more */
	assert_int_equal(errno, EAGAIN);
	teardown(&made);
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
	close(fd);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(domain_shared_by_processes), /* forks: before the device is open */
		T(messages_take_the_queue_that_they_name),
		T(several_senders_share_a_queue),
		T(extended_posting),
		T(waits_for_a_receive_of_that_queue),
		T(keys_belong_to_the_domain_of_the_queue),
		T(unknown_queues),
		T(too_short_a_receive),
		T(posting_to_the_wrong_half),
		T(attributes_of_each_half),
		T(other_kinds_do_not_answer),
		T(completions_outlive_the_queue_pair),
		T(completions_vanish_with_the_queue),
		T(handles_of_a_queue_pair),
		T(events_for_each_handle),
		T(domain_of_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
