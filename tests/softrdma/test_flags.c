/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flags of work requests and completion events. Sources: ibv_post_send(3) (inline,
 * signalled, solicited), ibv_req_notify_cq(3) and IBA 11.4.2.2 (events are one-shot,
 * errors count as solicited, arming says nothing about what is queued already),
 * ibv_get_cq_event(3), ibv_wr_post(3).
 */
#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

static int event_is_pending(struct rig *r, int ms)
{
	struct pollfd p = {.fd = r->ch->fd, .events = POLLIN};

	return poll(&p, 1, ms);
}

static void take_event(struct rig *r, struct ibv_cq *from)
{
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(event_is_pending(r, 2000), 1);
	assert_int_equal(ibv_get_cq_event(r->ch, &cq, &context), 0);
	assert_ptr_equal(cq, from);
	ibv_ack_cq_events(cq, 1);
}

static void message(struct rig *r, unsigned flags)
{
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, flags | IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
}

/* The channel has none of what was done before: that of the other end's CQ, which is caused now, is
 * the next one, and the only one. */
static void expect_no_event(struct rig *r)
{
	assert_int_equal(ibv_req_notify_cq(r->a.rcq, 0), 0);
	assert_int_equal(recv_at(&r->a, 3, 0, 64), 0);
	assert_int_equal(send_from(&r->b, 4, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_wc(r->b.scq, 4, IBV_WC_SUCCESS);
	expect_wc(r->a.rcq, 3, IBV_WC_SUCCESS);
	take_event(r, r->a.rcq);
	assert_int_equal(event_is_pending(r, 0), 0);
}

/* ibv_post_send(3), IBV_SEND_INLINE: copied when the call returns, and its key ignored. */
static void inline_buffer_is_free_on_return(void **state)
{
	struct rig *r = *state;
	char text[] = "inline data needs no key";
	struct ibv_sge sge = {(uintptr_t)text, sizeof(text), 0};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED},
			   *bad;

	assert_int_equal(ibv_post_send(r->a.qp, &wr, &bad), 0); /* waits for a receive */
	memset(text, 0, sizeof(text));
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
	assert_string_equal((char *)r->b.buf, "inline data needs no key");
}

/* ibv_post_send(3), ibv_post_recv(3): the lists' buffers follow each other, empty ones too. */
static void gather_and_scatter(void **state)
{
	struct rig *r = *state;
	uint32_t lengths[] = {10, 100, 1000};

	for (unsigned i = 0; i < n_of(lengths); i++) {
		uint32_t n = lengths[i];
		uintptr_t a = (uintptr_t)r->a.buf, b = (uintptr_t)r->b.buf;
		struct ibv_sge from[3] = {{a, n, r->a.mr->lkey},
					  {a + 4096, 0, 0}, /* empty ones are allowed */
					  {a + 8192, n, r->a.mr->lkey}};
		struct ibv_sge to[2] = {{b, n / 2, r->b.mr->lkey},
					{b + 4096, 2 * n, r->b.mr->lkey}};
		struct ibv_send_wr wr = {.sg_list = from, .num_sge = 3, .opcode = IBV_WR_SEND};
		struct ibv_send_wr *bad;
		struct ibv_recv_wr rwr = {.sg_list = to, .num_sge = 2}, *rbad;

		memset(r->a.buf, 'p', n);
		memset(r->a.buf + 8192, 'q', n);
		assert_int_equal(ibv_post_recv(r->b.qp, &rwr, &rbad), 0);
		assert_int_equal(ibv_post_send(r->a.qp, &wr, &bad), 0);
		assert_int_equal(next_wc(r->b.rcq).byte_len, 2 * n);
		assert_memory_equal(r->b.buf, r->a.buf, n / 2);
		assert_memory_equal(r->b.buf + 4096, r->a.buf, n / 2);
		assert_memory_equal(r->b.buf + 4096 + n / 2, r->a.buf + 8192, n);
	}
}

/* ibv_req_notify_cq(3): one event for each request. */
static void event_is_one_shot(void **state)
{
	struct rig *r = *state;

	assert_int_equal(ibv_req_notify_cq(r->b.rcq, 0), 0);
	message(r, 0);
	message(r, 0);
	take_event(r, r->b.rcq);
	expect_no_event(r);
}

/* ibv_req_notify_cq(3), ibv_get_cq_event(3): for the next completion, not for those there. */
static void arming_is_not_level_triggered(void **state)
{
	struct rig *r = *state;

	message(r, 0);
	assert_int_equal(ibv_req_notify_cq(r->b.rcq, 0), 0);
	expect_no_event(r);
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS); /* hence: arm, then poll again */
}

/* ibv_req_notify_cq(3): solicited_only. */
static void solicited_only(void **state)
{
	struct rig *r = *state;

	assert_int_equal(ibv_req_notify_cq(r->b.rcq, 1), 0);
	message(r, 0);
	expect_no_event(r);
	message(r, IBV_SEND_SOLICITED);
	take_event(r, r->b.rcq);
}

/* IBA 11.4.2.2: of two requests the wider one holds. */
static void arming_twice_keeps_the_wider(void **state)
{
	struct rig *r = *state;

	assert_int_equal(ibv_req_notify_cq(r->b.rcq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(r->b.rcq, 1), 0);
	message(r, 0);
	take_event(r, r->b.rcq);
}

/* IBA 11.4.2.2: an error counts as solicited. */
static void errors_are_solicited(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(ibv_req_notify_cq(r->b.rcq, 1), 0);
	assert_int_equal(to_state(r->b.qp, IBV_QPS_ERR), 0);
	take_event(r, r->b.rcq);
}

/* ibv_get_cq_event(3): its example of a non-blocking channel. */
static void nonblocking_channel(void **state)
{
	struct rig *r = *state; /* the rig sets O_NONBLOCK on the channel */
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(ibv_get_cq_event(r->ch, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
}

/* Several CQs on one channel: each event belongs to the right one. */
static void events_of_two_queues(void **state)
{
	struct rig *r = *state;

	assert_int_equal(ibv_req_notify_cq(r->b.rcq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(r->a.rcq, 0), 0);
	message(r, 0);
	take_event(r, r->b.rcq);
	assert_int_equal(recv_at(&r->a, 5, 0, 64), 0);
	assert_int_equal(send_from(&r->b, 6, 0, 64, 0), 0);
	take_event(r, r->a.rcq);
}

/* A CQ that goes takes its unfetched events along. */
static void destroying_forgets_events(void **state)
{
	struct rig *r = *state;

	assert_int_equal(ibv_req_notify_cq(r->b.rcq, 0), 0);
	message(r, 0);
	assert_int_equal(event_is_pending(r, 1000), 1);
	assert_int_equal(ibv_destroy_qp(r->b.qp), 0);
	r->b.qp = NULL;
	assert_int_equal(ibv_destroy_cq(r->b.rcq), 0);
	assert_int_equal(event_is_pending(r, 0), 0);
	r->b.rcq = ibv_create_cq(r->ctx, 1, NULL, r->ch, 0);
}

/* IBA 10.8.3.3: a fenced request starts after the READs before it. */
static void fence_after_read(void **state)
{
	struct rig *r = *state;

	memset(r->b.buf, 'f', 4096);
	assert_int_equal(recv_at(&r->b, 1, 8192, 4096), 0);
	assert_int_equal(
		rdma(&r->a, IBV_WR_RDMA_READ, 2, 0, 4096, (uintptr_t)r->b.buf, r->b.mr->rkey, 0),
		0);
	assert_int_equal(send_from(&r->a, 3, 0, 4096, IBV_SEND_FENCE | IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.scq, 3, IBV_WC_SUCCESS);
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(r->b.buf, r->b.buf + 8192, 4096);
}

/* ---- the extended interfaces ------------------------------------------------- */

static void wr_builder(void **state)
{
	struct rig *r = *state;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(r->a.qp);
	struct ibv_wc wc;

	assert_int_equal(recv_at(&r->b, 1, 0, 4096), 0);
	strcpy((char *)r->a.buf, "built");
	ibv_wr_start(ex);
	ex->wr_id = 2;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, r->b.mr->rkey, (uintptr_t)r->b.buf + 4096);
	ibv_wr_set_sge(ex, r->a.mr->lkey, (uintptr_t)r->a.buf, 6);
	ex->wr_id = 3;
	ibv_wr_send_imm(ex, 0x99);
	ibv_wr_set_inline_data(ex, r->a.buf, 6);
	expect_empty(r->a.scq); /* nothing before complete */
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 3, IBV_WC_SUCCESS);
	wc = next_wc(r->b.rcq);
	assert_int_equal(wc.imm_data, 0x99);
	assert_string_equal((char *)r->b.buf, "built");
	assert_string_equal((char *)r->b.buf + 4096, "built");
}

/* ibv_wr_post(3): all or nothing. */
static void wr_builder_errors_and_abort(void **state)
{
	struct rig *r = *state;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(r->a.qp);
	static uint8_t much[1000];

	assert_int_equal(recv_at(&r->b, 1, 0, 4096), 0);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, r->a.mr->lkey, (uintptr_t)r->a.buf, 6);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, much, sizeof(much));
	assert_int_equal(ibv_wr_complete(ex), ENOMEM);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	expect_empty(r->a.scq);
	expect_empty(r->b.rcq);
	assert_int_equal(send_from(&r->a, 7, 0, 8, IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.scq, 7, IBV_WC_SUCCESS);
}

static void extended_polling(void **state)
{
	struct rig *r = *state;
	struct ibv_cq_init_attr_ex init = {
		.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct ibv_poll_cq_attr none = {0};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(r->ctx, &init);
	struct end a = r->a;

	assert_non_null(cq);
	a.scq = ibv_cq_ex_to_cq(cq);
	a.qp = rig_new_qp(r, &a, NULL);
	assert_int_equal(to_init(a.qp), 0);
	assert_int_equal(to_state(a.qp, IBV_QPS_ERR), 0);
	assert_int_equal(ibv_start_poll(cq, &none), ENOENT);
	assert_int_equal(send_from(&a, 1, 0, 8, 0), 0);
	assert_int_equal(send_from(&a, 2, 0, 8, 0), 0);
	assert_int_equal(ibv_start_poll(cq, &none), 0);
	assert_int_equal(cq->wr_id, 1);
	assert_int_equal(cq->status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ibv_wc_read_qp_num(cq), a.qp->qp_num);
	assert_int_not_equal(ibv_wc_read_completion_ts(cq), 0);
	assert_int_equal(ibv_next_poll(cq), 0);
	assert_int_equal(cq->wr_id, 2);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	assert_int_equal(ibv_destroy_qp(a.qp), 0);
	assert_int_equal(ibv_destroy_cq(a.scq), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(inline_buffer_is_free_on_return),
		T(gather_and_scatter),
		T(event_is_one_shot),
		T(arming_is_not_level_triggered),
		T(solicited_only),
		T(arming_twice_keeps_the_wider),
		T(errors_are_solicited),
		T(nonblocking_channel),
		T(events_of_two_queues),
		T(destroying_forgets_events),
		T(fence_after_read),
		T(wr_builder),
		T(wr_builder_errors_and_abort),
		T(extended_polling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
