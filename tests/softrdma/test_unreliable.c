/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unreliable connections (UC): what arrives is what RC would have delivered, and what cannot be
 * delivered is lost in silence: the sender has its completion and goes on. Sources: IBA 9.8
 * (transport), 9.8.2.2 (what the responder drops), 10.3.1 and table 91 (states), table 38 (the
 * operations that have an opcode), ibv_post_send(3), ibv_wr_post(3).
 */
#include "rig.h"

#include <errno.h>
#include <string.h>

enum {
	SRQ_DEPTH = 8
};

static int setup(void **state)
{
	rig_opts.init.qp_type = IBV_QPT_UC;
	return rig_setup(state);
}

static void expect_message(struct rig *r, uint64_t id, uint32_t len)
{
	memset(r->b.buf, 0, len);
	for (uint32_t i = 0; i < len; i++)
		r->a.buf[i] = (uint8_t)(id + i * 7);
	assert_int_equal(send_from(&r->a, id, 0, len, IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.scq, id, IBV_WC_SUCCESS);
	assert_int_equal(next_wc(r->b.rcq).byte_len, len);
	assert_memory_equal(r->a.buf, r->b.buf, len);
}

/* The connection has lost a message, and works. */
static void expect_intact(struct rig *r)
{
	expect_empty(r->b.rcq);
	assert_int_equal(state_of(r->a.qp), IBV_QPS_RTS);
	assert_int_equal(state_of(r->b.qp), IBV_QPS_RTS);
	expect_no_async(r);
}

static void expect_lost(struct rig *r, uint32_t len)
{
	assert_int_equal(send_from(&r->a, 99, 0, len, IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.scq, 99, IBV_WC_SUCCESS);
}

/* ---- states and operations ----------------------------------------------------------------- */

static void expect_exact(struct ibv_qp *qp, struct ibv_qp_attr *a, int required)
{
	const int reliable[] = {
		IBV_QP_TIMEOUT,	      IBV_QP_RETRY_CNT,		 IBV_QP_RNR_RETRY,
		IBV_QP_MIN_RNR_TIMER, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC,
		IBV_QP_QKEY};

	for (int bit = 1; bit <= required; bit <<= 1)
		if (bit & required)
			assert_int_equal(ibv_modify_qp(qp, a, IBV_QP_STATE | (required & ~bit)),
					 EINVAL);
	for (unsigned i = 0; i < n_of(reliable); i++)
		assert_int_equal(ibv_modify_qp(qp, a, IBV_QP_STATE | required | reliable[i]),
				 EINVAL);
	assert_int_equal(ibv_modify_qp(qp, a, IBV_QP_STATE | required), 0);
}

/* IBA table 91, and ib_modify_qp_is_ok() of the kernel: nothing of retries and READs. */
static void attribute_masks_are_exact(void **state)
{
	struct rig *r = *state;
	struct ibv_qp *qp = rig_new_qp(r, &r->a, NULL);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.path_mtu = IBV_MTU_1024,
				.ah_attr = {.port_num = 1, .is_global = 1}};

	expect_exact(qp, &a, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
	a.qp_state = IBV_QPS_RTR;
	expect_exact(qp, &a, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
	a.qp_state = IBV_QPS_RTS;
	expect_exact(qp, &a, IBV_QP_SQ_PSN);
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_MIN_RNR_TIMER), EINVAL);
	assert_int_equal(to_state(qp, IBV_QPS_SQD), 0);
	assert_int_equal(to_state(qp, IBV_QPS_RTS), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* IBA table 38: no READ, no atomic, no SEND with invalidate. */
static void operations_without_an_opcode(void **state)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
						 IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV};
	struct rig *r = *state;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(r->a.qp);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = r->a.scq,
		.recv_cq = r->a.rcq,
		.cap = rig_opts.init.cap,
		.qp_type = IBV_QPT_UC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = r->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ};

	for (unsigned i = 0; i < n_of(ops); i++)
		assert_int_equal(rdma(&r->a, ops[i], 1, 0, 8, (uintptr_t)r->b.buf, r->b.mr->rkey,
				      IBV_SEND_SIGNALED),
				 EINVAL);
	ibv_wr_start(ex);
	ibv_wr_rdma_read(ex, r->b.mr->rkey, (uintptr_t)r->b.buf);
	ibv_wr_set_sge(ex, r->a.mr->lkey, (uintptr_t)r->a.buf, 8);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	errno = 0;
	assert_null(ibv_create_qp_ex(r->ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);
	expect_intact(r);
}

/* ---- what arrives --------------------------------------------------------------------------- */

static void messages_arrive(void **state)
{
	static const uint32_t lengths[] = {0, 1, 64, 65, 1024, 5000, 30000};
	struct rig *r = *state;

	for (unsigned i = 0; i < n_of(lengths); i++) {
		assert_int_equal(recv_at(&r->b, i, 0, 30000), 0);
		expect_message(r, i, lengths[i]);
	}
}

static void writes_arrive(void **state)
{
	struct rig *r = *state;
	struct ibv_sge sge = {(uintptr_t)r->a.buf, 2000, r->a.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 2,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = 1234,
				 .wr.rdma = {(uintptr_t)r->b.buf + 9000, r->b.mr->rkey}};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	memset(r->a.buf, 'w', 8000);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, 1, 0, 8000, (uintptr_t)r->b.buf,
			      r->b.mr->rkey, IBV_SEND_SIGNALED),
			 0);
	expect_wc(r->a.scq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(r->a.buf, r->b.buf, 8000);
	assert_int_equal(recv_at(&r->b, 5, 0, 0), 0);
	assert_int_equal(ibv_post_send(r->a.qp, &wr, &bad), 0);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
	wc = next_wc(r->b.rcq);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.imm_data, 1234);
	assert_int_equal(wc.byte_len, 2000);
	assert_memory_equal(r->a.buf, r->b.buf + 9000, 2000);
}

/* ---- what is lost --------------------------------------------------------------------------- */

/* IBA 9.8.2.2: no receive. One that is posted later is for what is sent later. */
static void no_receive(void **state)
{
	struct rig *r = *state;

	expect_lost(r, 8);
	expect_lost(r, 4000);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 8, (uintptr_t)r->b.buf,
			      r->b.mr->rkey, IBV_SEND_SIGNALED),
			 0);
	expect_wc(r->a.scq, 1, IBV_WC_SUCCESS);
	assert_int_equal(recv_at(&r->b, 3, 0, 64), 0);
	expect_intact(r);
	expect_message(r, 7, 40);
}

/* IBA 9.8.2.2: longer than the receive, which is for the next message. */
static void longer_than_the_receive(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->b, 3, 0, 40), 0);
	expect_lost(r, 41);
	expect_lost(r, 4000);
	expect_intact(r);
	expect_message(r, 7, 40);
}

static struct ibv_srq *new_srq(struct rig *r)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = SRQ_DEPTH, .max_sge = 2}};

	return ibv_create_srq(r->pd, &init);
}

static int setup_srq(void **state)
{
	rig_opts.srq_of_b = new_srq;
	return setup(state);
}

static void shared_receives(void **state)
{
	struct rig *r = *state;
	struct ibv_sge sge = {(uintptr_t)r->b.buf, 40, r->b.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;

	expect_lost(r, 8);
	assert_int_equal(ibv_post_srq_recv(r->b.qp->srq, &wr, &bad), 0);
	expect_lost(r, 41);
	expect_intact(r);
	expect_message(r, 7, 40);
	expect_lost(r, 8);
	expect_intact(r);
}

/* IBA 9.8.2.2: a key, a range or a right that is not there. */
static void bad_remote_keys(void **state)
{
	struct rig *r = *state;
	uintptr_t at = (uintptr_t)r->b.buf;
	struct {
		uint64_t at;
		uint32_t rkey;
	} bad[] = {{at, r->b.mr->rkey + 7},
		   {at, r->b.mr->lkey},
		   {at + RIG_BUF - 7, r->b.mr->rkey},
		   {at - 1, r->b.mr->rkey},
		   {at, 0}};

	memset(r->a.buf, 'x', 64);
	memset(r->b.buf, 'y', RIG_BUF);
	for (unsigned i = 0; i < n_of(bad); i++) {
		assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, i, 0, 8, bad[i].at, bad[i].rkey,
				      IBV_SEND_SIGNALED),
				 0);
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
	}
	for (unsigned i = 0; i < RIG_BUF; i++)
		assert_int_equal(r->b.buf[i], 'y');
	assert_int_equal(recv_at(&r->b, 3, 0, 64), 0);
	expect_intact(r);
	expect_message(r, 7, 40);
}

/* The other end is not there, or not connected to this one: nothing answers, nothing waits. */
static void no_other_end(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->b, 3, 0, 64), 0);
	assert_int_equal(to_state(r->b.qp, IBV_QPS_ERR), 0);
	expect_wc(r->b.rcq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_lost(r, 8);
	assert_int_equal(to_state(r->b.qp, IBV_QPS_RESET), 0);
	expect_lost(r, 8);
	assert_int_equal(to_init(r->b.qp), 0);
	assert_int_equal(recv_at(&r->b, 4, 0, 64), 0);
	expect_lost(r, 8);
	assert_int_equal(to_rtr(r->b.qp, r->a.qp->qp_num + 1), 0);
	expect_lost(r, 8);
	expect_empty(r->b.rcq);
	assert_int_equal(to_state(r->b.qp, IBV_QPS_RESET), 0);
	assert_int_equal(to_init(r->b.qp), 0);
	assert_int_equal(recv_at(&r->b, 5, 0, 64), 0);
	assert_int_equal(to_rtr(r->b.qp, r->a.qp->qp_num), 0);
	expect_message(r, 7, 40);
	assert_int_equal(next_async(r), IBV_EVENT_COMM_EST);
}

/* A queue pair of another kind takes nothing. */
static void other_kind_of_queue_pair(void **state)
{
	struct rig *r = *state;
	struct end reliable = r->b;
	struct ibv_wc wc;

	rig_opts.init.qp_type = IBV_QPT_RC;
	reliable.qp = rig_new_qp(r, &r->b, NULL);
	assert_int_equal(to_state(r->a.qp, IBV_QPS_RESET), 0);
	assert_int_equal(to_init(reliable.qp) | to_init(r->a.qp), 0);
	assert_int_equal(recv_at(&reliable, 1, 0, 64) | recv_at(&r->a, 2, 0, 64), 0);
	assert_int_equal(to_rtr(reliable.qp, r->a.qp->qp_num), 0);
	assert_int_equal(to_rtr(r->a.qp, reliable.qp->qp_num), 0);
	assert_int_equal(to_rts(reliable.qp) | to_rts(r->a.qp), 0);
	expect_lost(r, 8);
	expect_empty(r->b.rcq);
	assert_int_equal(send_from(&reliable, 9, 0, 8, IBV_SEND_SIGNALED), 0);
	expect_wc(r->b.scq, 9, IBV_WC_RETRY_EXC_ERR);
	expect_wc(r->b.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_poll_cq(r->a.rcq, 1, &wc), 0);
	assert_int_equal(ibv_destroy_qp(reliable.qp), 0);
}

/* ---- errors that stay errors ---------------------------------------------------------------- */

/* IBA 9.8.2.1: an error of the sender's own memory ends its queue pair. */
static void bad_local_key(void **state)
{
	struct rig *r = *state;
	struct ibv_sge sge = {(uintptr_t)r->a.buf, 8, r->a.mr->lkey + 1};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr *bad;

	assert_int_equal(recv_at(&r->b, 3, 0, 64), 0);
	assert_int_equal(ibv_post_send(r->a.qp, &wr, &bad), 0);
	expect_wc(r->a.scq, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(state_of(r->a.qp), IBV_QPS_ERR);
	assert_int_equal(state_of(r->b.qp), IBV_QPS_RTS);
	expect_empty(r->b.rcq);
}

/* IBA 9.8.2.2: an error of the receiver's own memory ends its queue pair, and only that. */
static void bad_receive_buffer(void **state)
{
	struct rig *r = *state;
	struct ibv_sge sge = {(uintptr_t)r->b.buf, 64, r->b.mr->lkey + 1};
	struct ibv_recv_wr wr = {.wr_id = 4, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(r->b.qp, &wr, &bad), 0);
	assert_int_equal(recv_at(&r->b, 5, 0, 64), 0);
	expect_lost(r, 8);
	expect_wc(r->b.rcq, 4, IBV_WC_LOC_PROT_ERR);
	expect_wc(r->b.rcq, 5, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of(r->b.qp), IBV_QPS_ERR);
	assert_int_equal(state_of(r->a.qp), IBV_QPS_RTS);
	expect_lost(r, 8);
}

#define TS(f, s) cmocka_unit_test_setup_teardown(f, s, rig_teardown)
#define T(f)	 TS(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(attribute_masks_are_exact),
		T(operations_without_an_opcode),
		T(messages_arrive),
		T(writes_arrive),
		T(no_receive),
		T(longer_than_the_receive),
		TS(shared_receives, setup_srq),
		T(bad_remote_keys),
		T(no_other_end),
		T(other_kind_of_queue_pair),
		T(bad_local_key),
		T(bad_receive_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
