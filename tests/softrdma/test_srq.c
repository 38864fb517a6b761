/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues. Sources: IBA 10.2.9 and 11.2.3, ibv_modify_srq(3) (limit),
 * ibv_post_srq_recv(3), IBA 11.6.3.2 (LAST_WQE_REACHED).
 */
#include "rig.h"

#include <errno.h>

enum {
	SRQ_DEPTH = 8
};

static struct ibv_srq *new_srq(struct rig *r)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = SRQ_DEPTH, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(r->pd, &init);

	assert_non_null(srq);
	return srq;
}

static int setup_srq(void **state)
{
	rig_opts.srq_of_b = new_srq;
	return rig_setup(state);
}

static int post(struct rig *r, uint64_t id, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)r->b.buf + id * 256, len, r->b.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(r->b.qp->srq, &wr, &bad);
}

/* IBA 10.2.9 and ibv_post_srq_recv(3): in order; a slot is free when it is polled. */
static void receives_in_order(void **state)
{
	struct rig *r = *state;

	for (int round = 0; round < 5; round++) {
		for (uint64_t i = 0; i < SRQ_DEPTH; i++)
			assert_int_equal(post(r, i, 256), 0);
		assert_int_equal(post(r, 9, 256), ENOMEM);
		for (uint64_t i = 0; i < SRQ_DEPTH; i++) {
			assert_int_equal(
				send_from(&r->a, 20, 0, i & 1 ? 64 : 200, IBV_SEND_SIGNALED), 0);
			expect_wc(r->a.scq, 20, IBV_WC_SUCCESS);
		}
		assert_int_equal(post(r, 9, 256), ENOMEM); /* nothing polled yet */
		for (uint64_t i = 0; i < SRQ_DEPTH; i++)
			expect_wc(r->b.rcq, i, IBV_WC_SUCCESS);
	}
}

/* ibv_post_srq_recv(3): ENOMEM names the first that did not fit, EINVAL the one too long. */
static void full_and_too_long(void **state)
{
	struct rig *r = *state;
	struct ibv_sge sge[3] = {{(uintptr_t)r->b.buf, 8, r->b.mr->lkey}};
	struct ibv_recv_wr wr[SRQ_DEPTH + 2], *bad = NULL;

	sge[1] = sge[2] = sge[0];
	for (unsigned i = 0; i < n_of(wr); i++)
		wr[i] = (struct ibv_recv_wr){.wr_id = i,
					     .sg_list = sge,
					     .num_sge = 1,
					     .next = i + 1 < n_of(wr) ? &wr[i + 1] : NULL};
	wr[2].num_sge = 3; /* max_sge is 2 */
	assert_int_equal(ibv_post_srq_recv(r->b.qp->srq, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[2]);
	wr[2].num_sge = 1;
	assert_int_equal(ibv_post_srq_recv(r->b.qp->srq, &wr[2], &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[SRQ_DEPTH]);
	for (uint64_t i = 0; i < SRQ_DEPTH; i++) {
		assert_int_equal(send_from(&r->a, 20, 0, 8, IBV_SEND_SIGNALED), 0);
		expect_wc(r->a.scq, 20, IBV_WC_SUCCESS);
		expect_wc(r->b.rcq, i, IBV_WC_SUCCESS);
	}
}

/* ibv_post_recv(3): not for a QP with an SRQ; ibv_destroy_srq(3): not while in use. */
static void own_receive_queue_is_not_there(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->b, 1, 0, 64), EINVAL);
	assert_int_equal(ibv_destroy_srq(r->b.qp->srq), EBUSY);
}

/* ibv_modify_srq(3): armed once, fires once, when fewer than the limit are left. */
static void limit_event(void **state)
{
	struct rig *r = *state;
	struct ibv_srq_attr attr = {.srq_limit = 3};

	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(post(r, i, 256), 0);
	assert_int_equal(ibv_modify_srq(r->b.qp->srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(ibv_query_srq(r->b.qp->srq, &attr), 0);
	assert_int_equal(attr.srq_limit, 3);
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(send_from(&r->a, 1, 0, 64, 0), 0);
		expect_wc(r->b.rcq, i, IBV_WC_SUCCESS);
		if (i == 2)
			assert_int_equal(next_async(r), IBV_EVENT_SRQ_LIMIT_REACHED);
		expect_no_async(r);
		assert_int_equal(ibv_query_srq(r->b.qp->srq, &attr), 0);
		assert_int_equal(attr.srq_limit, i < 2 ? 3 : 0);
	}
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post(r, i, 256), 0);
	attr.srq_limit = 4; /* armed anew */
	assert_int_equal(ibv_modify_srq(r->b.qp->srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(send_from(&r->a, 1, 0, 64, 0), 0);
	assert_int_equal(next_async(r), IBV_EVENT_SRQ_LIMIT_REACHED);
}

/* IBA 9.7.5.2.8: an empty SRQ makes senders wait, and a posted receive resumes them. */
static void empty_srq_is_not_ready(void **state)
{
	struct rig *r = *state;

	assert_int_equal(send_from(&r->a, 1, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_empty(r->a.scq);
	assert_int_equal(post(r, 2, 256), 0);
	expect_wc(r->a.scq, 1, IBV_WC_SUCCESS);
	expect_wc(r->b.rcq, 2, IBV_WC_SUCCESS);
}

/* IBA 11.6.3.2: a QP in error leaves the receives to the others, and raises an event when it is
 * done. */
static void last_wqe_reached(void **state)
{
	struct rig *r = *state;

	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post(r, i, 256), 0);
	assert_int_equal(to_state(r->b.qp, IBV_QPS_ERR), 0);
	assert_int_equal(next_async(r), IBV_EVENT_QP_LAST_WQE_REACHED);
	expect_empty(r->b.rcq);
	expect_no_async(r);
}

/* ibv_destroy_qp(3): completions dropped with their QP give their receives back to the SRQ. */
static void destroyed_qp_gives_back(void **state)
{
	struct rig *r = *state;
	struct end b = r->b;

	b.qp = rig_new_qp(r, &r->b, r->b.qp->srq);
	for (uint64_t i = 0; i < SRQ_DEPTH; i++)
		assert_int_equal(post(r, i, 256), 0);
	for (uint64_t i = 0; i < SRQ_DEPTH; i++)
		assert_int_equal(send_from(&r->a, 20, 0, 64, 0), 0);
	assert_int_equal(post(r, 0, 256), ENOMEM);
	assert_int_equal(ibv_destroy_qp(r->b.qp), 0);
	r->b.qp = b.qp;
	for (uint64_t i = 0; i < SRQ_DEPTH; i++)
		assert_int_equal(post(r, i, 256), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup_srq, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(receives_in_order), T(own_receive_queue_is_not_there),
		T(limit_event),	      T(empty_srq_is_not_ready),
		T(last_wqe_reached),  T(destroyed_qp_gives_back),
		T(full_and_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
