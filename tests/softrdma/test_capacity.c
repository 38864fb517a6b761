/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Full queues. Sources: ibv_post_send(3), ibv_post_recv(3) and ibv_post_srq_recv(3)
 * (bad_wr, what stays posted), IBA 10.8.5.1 (a send queue slot returns with the
 * polled completion of this or a later signalled request), IBA 11.6.3.2 (CQ error).
 */
#include "rig.h"

#include <errno.h>
#include <sys/mman.h>

static int setup_deep_rq(void **state)
{
	rig_opts.init.cap.max_recv_wr = 1000;
	return rig_setup(state);
}

/* Never signalled, never polled: the queue must run full. */
static void unsignalled_sends_fill_the_queue(void **state)
{
	struct rig *r = *state;
	int posted = 0;

	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(recv_at(&r->b, i, 0, 64), 0);
	while (posted < 100 && !send_from(&r->a, 1, 0, 8, 0))
		posted++;
	assert_int_equal(posted, RIG_DEPTH);
	assert_int_equal(send_from(&r->a, 1, 0, 8, 0), ENOMEM);
}

/* One signalled request among them frees all before it, when polled. */
static void polling_a_signalled_one_frees_all_before(void **state)
{
	struct rig *r = *state;

	for (uint64_t i = 0; i < 200; i++)
		assert_int_equal(recv_at(&r->b, i, 0, 64), 0);
	for (int i = 0; i < RIG_DEPTH; i++)
		assert_int_equal(send_from(&r->a, (uint64_t)i, 0, 8,
					   i == RIG_DEPTH - 2 ? IBV_SEND_SIGNALED : 0),
				 0);
	assert_int_equal(send_from(&r->a, 1, 0, 8, 0), ENOMEM);
	expect_wc(r->a.scq, RIG_DEPTH - 2, IBV_WC_SUCCESS);
	for (int i = 0; i < RIG_DEPTH - 1; i++)
		assert_int_equal(send_from(&r->a, 1, 0, 8, 0), 0);
	assert_int_equal(send_from(&r->a, 1, 0, 8, 0), ENOMEM);
}

/* ibv_post_recv(3): ENOMEM, bad_wr, and what is before it stays posted. */
static void receive_queue_full(void **state)
{
	struct rig *r = *state;
	struct ibv_sge sge = {(uintptr_t)r->b.buf, 8, r->b.mr->lkey};
	struct ibv_recv_wr wr[RIG_DEPTH + 2], *bad = NULL;

	for (unsigned i = 0; i < n_of(wr); i++)
		wr[i] = (struct ibv_recv_wr){.wr_id = i,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .next = i + 1 < n_of(wr) ? &wr[i + 1] : NULL};
	assert_int_equal(ibv_post_recv(r->b.qp, wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr[RIG_DEPTH]);
	for (uint64_t i = 0; i < RIG_DEPTH; i++) /* the ones before it count */
		assert_int_equal(send_from(&r->a, i, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(recv_at(&r->b, 99, 0, 8), ENOMEM); /* used, but not polled yet */
	expect_wc(r->b.rcq, 0, IBV_WC_SUCCESS);
	assert_int_equal(recv_at(&r->b, 99, 0, 8), 0);
}

/* ibv_post_recv(3): EINVAL for a list longer than max_recv_sge; likewise bad_wr. */
static void receive_list_too_long(void **state)
{
	struct rig *r = *state;
	struct ibv_sge sge[5];
	struct ibv_recv_wr wr[2] = {{.wr_id = 0, .next = &wr[1], .num_sge = 1},
				    {.wr_id = 1, .num_sge = 5}},
			   *bad = NULL;

	for (unsigned i = 0; i < n_of(sge); i++)
		sge[i] = (struct ibv_sge){(uintptr_t)r->b.buf, 8, r->b.mr->lkey};
	wr[0].sg_list = wr[1].sg_list = sge;
	assert_int_equal(ibv_post_recv(r->b.qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(send_from(&r->a, 2, 0, 8, IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
	expect_wc(r->b.rcq, 0, IBV_WC_SUCCESS);
}

/* ibv_post_send(3): the same; what is behind the bad one is not posted. */
static void chain_stops_at_the_bad_one(void **state)
{
	struct rig *r = *state;
	struct ibv_sge sge = {(uintptr_t)r->a.buf, 8, r->a.mr->lkey};
	struct ibv_send_wr wr[3] = {0}, *bad = NULL;

	for (unsigned i = 0; i < 3; i++) {
		wr[i] = (struct ibv_send_wr){.wr_id = i,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_SEND,
					     .send_flags = IBV_SEND_SIGNALED,
					     .next = i < 2 ? &wr[i + 1] : NULL};
		assert_int_equal(recv_at(&r->b, i, 0, 64), 0);
	}
	wr[1].num_sge = 5; /* max_send_sge is 4 */
	assert_int_equal(ibv_post_send(r->a.qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	expect_wc(r->a.scq, 0, IBV_WC_SUCCESS);
	expect_empty(r->a.scq);
	wr[1].num_sge = 1;
	wr[1].opcode = (enum ibv_wr_opcode)77;
	assert_int_equal(ibv_post_send(r->a.qp, &wr[1], &bad), EINVAL);
}

/* ibv_post_send(3): max_inline_data as granted at creation. */
static void too_much_inline(void **state)
{
	struct rig *r = *state;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(ibv_query_qp(r->a.qp, &a, IBV_QP_CAP, &init), 0);
	assert_in_range(a.cap.max_inline_data, 64, 220);
	assert_int_equal(recv_at(&r->b, 1, 0, 4096), 0);
	assert_int_equal(
		send_from(&r->a, 1, 0, a.cap.max_inline_data, IBV_SEND_INLINE | IBV_SEND_SIGNALED),
		0);
	assert_int_equal(send_from(&r->a, 2, 0, a.cap.max_inline_data + 1, IBV_SEND_INLINE),
			 ENOMEM);
	expect_wc(r->a.scq, 1, IBV_WC_SUCCESS);
}

static int setup_small_cq(void **state)
{
	rig_opts.scq_size = 50; /* rounded up to 64, as drivers do */
	rig_opts.init.cap.max_send_wr = 200;
	rig_opts.init.cap.max_recv_wr = 200;
	return rig_setup(state);
}

/* IBA 11.6.3.2: an overrun is an error of the CQ and of every QP that uses it. */
static void cq_overrun(void **state)
{
	struct rig *r = *state;
	enum ibv_event_type t;

	assert_int_equal(r->a.scq->cqe, 64);
	for (uint64_t i = 0; i < 65; i++)
		assert_int_equal(recv_at(&r->b, i, 0, 64), 0);
	for (uint64_t i = 0; i < 64; i++) {
		assert_int_equal(send_from(&r->a, i, 0, 8, IBV_SEND_SIGNALED), 0);
		expect_wc(r->b.rcq, i, IBV_WC_SUCCESS);
	}
	expect_no_async(r);
	assert_int_equal(send_from(&r->a, 64, 0, 8, IBV_SEND_SIGNALED), 0);
	t = next_async(r);
	assert_int_equal(t, IBV_EVENT_CQ_ERR);
	wait_for_state(r->a.qp, IBV_QPS_ERR);
	expect_no_async(r);
	assert_int_equal(state_of(r->b.qp), IBV_QPS_RTS);
}

/* ibv_create_qp(3): a request beyond the device's limits is refused, a smaller one is granted. */
static void limits_of_creation(void **state)
{
	struct rig *r = *state;
	struct ibv_device_attr dev;
	struct ibv_qp_init_attr init = rig_opts.init;

	assert_int_equal(ibv_query_device(r->ctx, &dev), 0);
	init.send_cq = init.recv_cq = r->a.scq;
	init.cap.max_send_wr = (uint32_t)dev.max_qp_wr + 1;
	assert_null(ibv_create_qp(r->pd, &init));
	assert_int_equal(errno, EINVAL);
	init = rig_opts.init;
	init.send_cq = init.recv_cq = r->a.scq;
	init.cap.max_recv_sge = (uint32_t)dev.max_sge + 1;
	assert_null(ibv_create_qp(r->pd, &init));
	init = rig_opts.init;
	init.send_cq = init.recv_cq = r->a.scq;
	init.cap.max_inline_data = 100000;
	assert_null(ibv_create_qp(r->pd, &init));
	assert_null(ibv_create_cq(r->ctx, dev.max_cqe + 1, NULL, NULL, 0));
	assert_null(ibv_create_cq(r->ctx, 0, NULL, NULL, 0));
	assert_null(ibv_create_cq(r->ctx, 1, NULL, NULL, r->ctx->num_comp_vectors));
	init = rig_opts.init;
	init.send_cq = init.recv_cq = r->a.scq;
	init.qp_type = IBV_QPT_RAW_PACKET;
	assert_null(ibv_create_qp(r->pd, &init));
	assert_int_equal(errno, EOPNOTSUPP);
}

/*
 * Limits that programs must live with on hardware, as mlx5, bnxt_re and irdma report them: lists of
 * at most 30, 16 READs in flight, queues of 16 Ki. All of them together are granted.
 */
static void limits_are_a_common_cards(void **state)
{
	struct rig *r = *state;
	struct ibv_device_attr dev;
	struct ibv_qp_init_attr init = rig_opts.init;
	struct ibv_qp *qp;

	assert_int_equal(ibv_query_device(r->ctx, &dev), 0);
	assert_in_range(dev.max_sge, 16, 30);
	assert_in_range(dev.max_sge_rd, 1, 30);
	assert_in_range(dev.max_srq_sge, 15, 31);
	assert_int_equal(dev.max_qp_rd_atom, 16);
	assert_int_equal(dev.max_qp_init_rd_atom, 16);
	assert_in_range(dev.max_qp_wr, 4096, 16384);
	assert_in_range(dev.max_srq_wr, 4096, 32768);
	init.send_cq = init.recv_cq = r->a.scq;
	init.cap = (struct ibv_qp_cap){(uint32_t)dev.max_qp_wr, (uint32_t)dev.max_qp_wr,
				       (uint32_t)dev.max_sge, (uint32_t)dev.max_sge, 64};
	qp = ibv_create_qp(r->pd, &init);
	assert_non_null(qp);
	assert_in_range(init.cap.max_send_wr, dev.max_qp_wr, dev.max_qp_wr);
	assert_in_range(init.cap.max_send_sge, dev.max_sge, dev.max_sge);
	assert_in_range(init.cap.max_inline_data, 64, 220);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	init.cap.max_inline_data = 221;
	assert_null(ibv_create_qp(r->pd, &init));
}

/* ibv_create_qp(3): what is granted is at least what was asked for, and works. */
static void inline_is_granted(void **state)
{
	struct rig *r = *state;
	struct end e = r->a;

	for (uint32_t n_sge = 1; n_sge <= 30; n_sge++)
		for (uint32_t asked = 0; asked <= 220; asked += 44) {
			struct ibv_qp_init_attr init = rig_opts.init;

			init.send_cq = init.recv_cq = r->a.scq;
			init.cap.max_send_sge = n_sge;
			init.cap.max_inline_data = asked;
			e.qp = ibv_create_qp(r->pd, &init);
			assert_non_null(e.qp);
			assert_in_range(init.cap.max_inline_data, asked > 16 ? asked : 16, 220);
			assert_int_equal(to_init(e.qp) | to_rtr(e.qp, 1) | to_rts(e.qp), 0);
			assert_int_equal(
				send_from(&e, 1, 0, init.cap.max_inline_data, IBV_SEND_INLINE), 0);
			assert_int_equal(
				send_from(&e, 1, 0, init.cap.max_inline_data + 1, IBV_SEND_INLINE),
				ENOMEM);
			assert_int_equal(ibv_destroy_qp(e.qp), 0);
		}
}

/* IBA 11.6.2, Local Length Error: more than the channel adapter takes in one message. */
static void message_longer_than_the_port_takes(void **state)
{
	struct rig *r = *state;
	struct ibv_port_attr port;
	struct ibv_qp_init_attr init = rig_opts.init;
	struct ibv_sge sge[30];
	size_t len;
	struct end a = r->a;
	struct ibv_mr *mr;
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = sge,
				 .num_sge = n_of(sge),
				 .opcode = IBV_WR_RDMA_WRITE,
				 .wr.rdma = {(uintptr_t)r->b.buf, r->b.mr->rkey}},
			   *bad;
	uint8_t *p;

	assert_int_equal(ibv_query_port(r->ctx, 1, &port), 0);
	assert_in_range(port.max_msg_sz, 1 << 20, 1U << 31);
	len = port.max_msg_sz / n_of(sge) + 1; /* the same memory, many times */
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	mr = ibv_reg_mr(r->pd, p, len, 0);
	if (!mr && errno == ENOMEM)
		skip(); /* RLIMIT_MEMLOCK of a user */
	assert_non_null(mr);
	for (unsigned i = 0; i < n_of(sge); i++)
		sge[i] = (struct ibv_sge){(uintptr_t)p, (uint32_t)len, mr->lkey};
	init.send_cq = init.recv_cq = a.scq;
	init.cap.max_send_sge = n_of(sge);
	a.qp = ibv_create_qp(r->pd, &init);
	assert_int_equal(to_init(a.qp), 0);
	assert_int_equal(to_rtr(a.qp, r->b.qp->qp_num), 0);
	assert_int_equal(to_rts(a.qp), 0);
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	expect_wc(a.scq, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(ibv_destroy_qp(a.qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(p, len);
}

/* ibv_resize_cq(3): entries in the queue stay. */
static void resize_keeps_entries(void **state)
{
	struct rig *r = *state;

	for (uint64_t i = 0; i < 10; i++) {
		assert_int_equal(recv_at(&r->b, i, 0, 64), 0);
		assert_int_equal(send_from(&r->a, i, 0, 64, IBV_SEND_SIGNALED), 0);
	}
	expect_wc(r->a.scq, 0, IBV_WC_SUCCESS);
	assert_int_equal(ibv_resize_cq(r->a.scq, 5000), 0);
	assert_in_range(r->a.scq->cqe, 5000, 65536);
	for (uint64_t i = 1; i < 10; i++)
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
	expect_empty(r->a.scq);
}

/* IBA 10.2.4: each has a number of its own; these are more than one base of numbers has. */
static void a_thousand_queue_pairs(void **state)
{
	struct rig *r = *state;
	static struct ibv_qp *qp[1200];
	struct end a = r->a, b = r->b;

	for (unsigned i = 0; i < n_of(qp); i++) {
		qp[i] = rig_new_qp(r, &r->a, NULL);
		assert_non_null(qp[i]);
		for (unsigned j = 0; j < i; j += 97)
			assert_int_not_equal(qp[i]->qp_num, qp[j]->qp_num);
		assert_int_equal(to_init(qp[i]), 0);
	}
	a.qp = qp[0];
	b.qp = qp[n_of(qp) - 1];
	assert_int_equal(to_rtr(a.qp, b.qp->qp_num), 0);
	assert_int_equal(to_rtr(b.qp, a.qp->qp_num), 0);
	assert_int_equal(to_rts(a.qp), 0);
	assert_int_equal(recv_at(&b, 1, 0, 64), 0);
	assert_int_equal(send_from(&a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
	expect_wc(r->a.rcq, 1, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < n_of(qp); i++)
		assert_int_equal(ibv_destroy_qp(qp[i]), 0);
}

/* Numbers are hard to guess, and none comes again soon: what peers remember of it would be taken
 * for the next connection's. IBA 12.4.6. */
static void numbers_are_at_random(void **state)
{
	struct rig *r = *state;
	uint32_t numbers[120];
	unsigned n_next = 0;

	for (unsigned i = 0; i < n_of(numbers); i++) {
		struct ibv_qp *qp = rig_new_qp(r, &r->a, NULL);

		assert_non_null(qp);
		numbers[i] = qp->qp_num;
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(numbers[i], numbers[j]);
		n_next += i && numbers[i] == numbers[i - 1] + 1;
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
	assert_in_range(n_next, 0, 20); /* on average a half */
}

#define TS(f, s) cmocka_unit_test_setup_teardown(f, s, rig_teardown)
#define T(f)	 TS(f, rig_setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TS(unsignalled_sends_fill_the_queue, setup_deep_rq),
		TS(polling_a_signalled_one_frees_all_before, setup_deep_rq),
		T(receive_queue_full),
		T(receive_list_too_long),
		T(chain_stops_at_the_bad_one),
		T(too_much_inline),
		TS(cq_overrun, setup_small_cq),
		T(limits_of_creation),
		T(limits_are_a_common_cards),
		T(inline_is_granted),
		T(message_longer_than_the_port_takes),
		T(resize_keeps_entries),
		T(a_thousand_queue_pairs),
		T(numbers_are_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
