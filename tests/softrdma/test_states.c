/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pair state machine. Sources: IBA 10.3.1 and table 91 (attributes of each
 * transition), ibv_modify_qp(3); flushing: IBA 10.3.1.5 and ibv_destroy_qp(3).
 */
#include "rig.h"

#include <errno.h>

/* IBA 10.3.1: the only ways are RESET INIT RTR RTS, and ERR or RESET from anywhere. */
static void states_cannot_be_skipped(void **state)
{
	struct rig *r = *state;
	struct ibv_qp *qp = rig_new_qp(r, &r->a, NULL);

	assert_int_equal(state_of(qp), IBV_QPS_RESET);
	assert_int_equal(to_rtr(qp, 1), EINVAL);
	assert_int_equal(to_rts(qp), EINVAL);
	assert_int_equal(to_init(qp), 0);
	assert_int_equal(to_rts(qp), EINVAL);
	assert_int_equal(to_state(qp, IBV_QPS_SQD), EINVAL);
	assert_int_equal(to_rtr(qp, r->b.qp->qp_num), 0);
	assert_int_equal(to_init(qp), EINVAL);
	assert_int_equal(to_state(qp, IBV_QPS_ERR), 0);
	assert_int_equal(to_rts(qp), EINVAL);
	assert_int_equal(to_state(qp, IBV_QPS_RESET), 0);
	assert_int_equal(to_init(qp), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* IBA table 91: each required attribute is required, others are refused. */
static void attribute_masks_are_exact(void **state)
{
	struct rig *r = *state;
	struct ibv_qp *qp = rig_new_qp(r, &r->a, NULL);
	int init = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	assert_int_equal(ibv_modify_qp(qp, &a, init & ~IBV_QP_PORT), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &a, init & ~IBV_QP_PKEY_INDEX), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &a, init & ~IBV_QP_ACCESS_FLAGS), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &a, init | IBV_QP_TIMEOUT), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &a, init), 0);
	a.qp_state = IBV_QPS_ERR;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Each attribute of a transition, left out in turn; and one too many. */
static void expect_exact(struct ibv_qp *qp, struct ibv_qp_attr *a, int required, int not_allowed)
{
	for (int bit = 1; bit <= required; bit <<= 1)
		if (bit & required)
			assert_int_equal(ibv_modify_qp(qp, a, IBV_QP_STATE | (required & ~bit)),
					 EINVAL);
	assert_int_equal(ibv_modify_qp(qp, a, IBV_QP_STATE | required | not_allowed), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, a, IBV_QP_STATE | required), 0);
}

/* IBA table 91, and ib_modify_qp_is_ok() of the kernel. */
static void masks_of_rtr_and_rts_are_exact(void **state)
{
	struct rig *r = *state;
	struct ibv_qp *qp = rig_new_qp(r, &r->a, NULL);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
				.path_mtu = IBV_MTU_1024,
				.dest_qp_num = r->b.qp->qp_num,
				.max_dest_rd_atomic = 1,
				.ah_attr = {.port_num = 1, .is_global = 1}};

	assert_int_equal(to_init(qp), 0);
	expect_exact(qp, &a,
		     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		     IBV_QP_TIMEOUT);
	a.qp_state = IBV_QPS_RTS;
	expect_exact(qp, &a,
		     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC,
		     IBV_QP_DEST_QPN);
	assert_int_equal(state_of(qp), IBV_QPS_RTS);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* ibv_modify_qp(3): attribute values are checked. */
static void attribute_values_are_checked(void **state)
{
	struct rig *r = *state;
	struct ibv_qp *qp = rig_new_qp(r, &r->a, NULL);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 2};
	int init = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;

	assert_int_equal(ibv_modify_qp(qp, &a, init), EINVAL);
	a.port_num = 1;
	a.pkey_index = 1;
	assert_int_equal(ibv_modify_qp(qp, &a, init), EINVAL);
	a.pkey_index = 0;
	assert_int_equal(ibv_modify_qp(qp, &a, init), 0);
	rig_opts.rd_atomic = 17; /* more than max_qp_rd_atom */
	assert_int_equal(to_rtr(qp, 1), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* IBA 10.3.1: receives from INIT on, sends from RTS on. */
static void posting_needs_the_right_state(void **state)
{
	struct rig *r = *state;
	struct end e = r->a;

	e.qp = rig_new_qp(r, &r->a, NULL);
	assert_int_equal(recv_at(&e, 1, 0, 64), EINVAL);
	assert_int_equal(to_init(e.qp), 0);
	assert_int_equal(recv_at(&e, 2, 0, 64), 0);
	assert_int_equal(send_from(&e, 3, 0, 64, IBV_SEND_SIGNALED), EINVAL);
	assert_int_equal(to_rtr(e.qp, r->b.qp->qp_num), 0);
	assert_int_equal(send_from(&e, 3, 0, 64, IBV_SEND_SIGNALED), EINVAL);
	assert_int_equal(ibv_destroy_qp(e.qp), 0);
}

/* IBA 10.3.1.5: in ERR everything posted before completes flushed, in order. */
static void error_flushes_in_order(void **state)
{
	struct rig *r = *state;

	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(recv_at(&r->a, i, 0, 64), 0);
	for (uint64_t i = 10; i < 14; i++) /* b has no receive: they all wait; unsignalled too */
		assert_int_equal(send_from(&r->a, i, 0, 64, i & 1 ? IBV_SEND_SIGNALED : 0), 0);
	assert_int_equal(to_state(r->a.qp, IBV_QPS_ERR), 0);
	for (uint64_t i = 0; i < 4; i++)
		expect_wc(r->a.rcq, i, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 10; i < 14; i++)
		expect_wc(r->a.scq, i, IBV_WC_WR_FLUSH_ERR);
	expect_empty(r->a.rcq);
	expect_empty(r->a.scq);
}

/* IBA 10.3.1.5: work requests posted in ERR complete flushed. */
static void posting_in_error_flushes_at_once(void **state)
{
	struct rig *r = *state;

	assert_int_equal(to_state(r->a.qp, IBV_QPS_ERR), 0);
	assert_int_equal(recv_at(&r->a, 1, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, 0), 0);
	expect_wc(r->a.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_wc(r->a.scq, 2, IBV_WC_WR_FLUSH_ERR);
}

/* IBA 10.3.1: RESET removes everything without completions; so does destroying. */
static void reset_drops_silently(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	assert_int_equal(recv_at(&r->b, 3, 0, 64), 0);
	assert_int_equal(to_state(r->b.qp, IBV_QPS_RESET), 0);
	expect_empty(r->b.rcq);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
	assert_int_equal(recv_at(&r->b, 3, 0, 64), EINVAL);
}

/* The same for sends that wait: they never complete, then or later. */
static void reset_drops_waiting_sends(void **state)
{
	struct rig *r = *state;

	assert_int_equal(send_from(&r->a, 1, 0, 64, IBV_SEND_SIGNALED), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	assert_int_equal(to_state(r->a.qp, IBV_QPS_RESET), 0);
	expect_empty(r->a.scq);
	assert_int_equal(recv_at(&r->b, 3, 0, 64), 0);
	expect_empty(r->b.rcq);
	expect_empty(r->a.scq);
}

/* ibv_destroy_qp(3): no completion of it can be polled any more. */
static void destroy_drops_silently(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	assert_int_equal(ibv_destroy_qp(r->b.qp), 0);
	r->b.qp = NULL;
	expect_empty(r->b.rcq);
}

/* IBA 10.3.1: a pair can be taken through RESET and used again. */
static void reset_and_reconnect(void **state)
{
	struct rig *r = *state;

	for (int round = 0; round < 3; round++) {
		assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
		assert_int_equal(send_from(&r->a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
		expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
		expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
		assert_int_equal(to_state(r->a.qp, IBV_QPS_RESET), 0);
		assert_int_equal(to_state(r->b.qp, IBV_QPS_RESET), 0);
		assert_int_equal(to_init(r->a.qp), 0);
		assert_int_equal(to_init(r->b.qp), 0);
		assert_int_equal(to_rtr(r->a.qp, r->b.qp->qp_num), 0);
		assert_int_equal(to_rtr(r->b.qp, r->a.qp->qp_num), 0);
		assert_int_equal(to_rts(r->a.qp), 0);
		assert_int_equal(to_rts(r->b.qp), 0);
	}
}

/* IBA 10.3.1.4: in SQD sends are accepted and wait until RTS. */
static void sqd_holds_sends(void **state)
{
	struct rig *r = *state;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(ibv_modify_qp(r->a.qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(next_async(r), IBV_EVENT_SQ_DRAINED);
	assert_int_equal(send_from(&r->a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_empty(r->a.scq);
	assert_int_equal(to_state(r->a.qp, IBV_QPS_RTS), 0);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
}

/* IBA 11.2.5: protection domains and CQs in use cannot be destroyed. */
static void objects_in_use_are_busy(void **state)
{
	struct rig *r = *state;

	assert_int_equal(ibv_dealloc_pd(r->pd), EBUSY);
	assert_int_equal(ibv_destroy_cq(r->a.scq), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(r->ch), EBUSY);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(states_cannot_be_skipped),
		T(attribute_masks_are_exact),
		T(attribute_values_are_checked),
		T(posting_needs_the_right_state),
		T(error_flushes_in_order),
		T(posting_in_error_flushes_at_once),
		T(reset_drops_silently),
		T(destroy_drops_silently),
		T(masks_of_rtr_and_rts_are_exact),
		T(reset_drops_waiting_sends),
		T(reset_and_reconnect),
		T(sqd_holds_sends),
		T(objects_in_use_are_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
