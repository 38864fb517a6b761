/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The differences of iWARP (SOFTRDMA_LIKE=siw). Sources: RFC 5040 (RDMAP: a READ's
 * sink has a tag on the wire; neither immediate data nor atomics), RFC 5044 (MPA: the
 * private data's length is on the wire), Linux' drivers/infiniband/sw/siw.
 */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string.h>

/* RFC 5040 5.2: the responder writes to the sink, by its tag. */
static void read_sink_needs_remote_write(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *sink = ibv_reg_mr(r->pd, r->a.buf, 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *good = r->a.mr;

	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_READ, 1, 0, 64, (uintptr_t)r->b.buf, r->b.mr->rkey,
			      IBV_SEND_SIGNALED),
			 0);
	expect_wc(r->a.scq, 1, IBV_WC_SUCCESS);
	r->a.mr = sink;
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_READ, 2, 0, 64, (uintptr_t)r->b.buf, r->b.mr->rkey,
			      IBV_SEND_SIGNALED),
			 0);
	r->a.mr = good;
	expect_wc(r->a.scq, 2, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ibv_dereg_mr(sink), 0);
}

/* RFC 5040 has neither; siw_post_send() refuses them. */
static void no_immediates_and_no_atomics(void **state)
{
	struct rig *r = *state;
	struct ibv_device_attr dev;

	assert_int_equal(r->ctx->device->transport_type, IBV_TRANSPORT_IWARP);
	assert_int_equal(ibv_query_device(r->ctx, &dev), 0);
	assert_int_equal(dev.atomic_cap, IBV_ATOMIC_NONE);
	assert_int_equal(rdma(&r->a, IBV_WR_SEND_WITH_IMM, 1, 0, 8, 0, 0, 0), EINVAL);
	assert_int_equal(rdma(&r->a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8, 0, 0, 0), EINVAL);
}

/* siw_query_device(): no windows, and no call that makes one. */
static void no_windows(void **state)
{
	struct rig *r = *state;
	struct ibv_device_attr dev;

	assert_int_equal(ibv_query_device(r->ctx, &dev), 0);
	assert_int_equal(dev.device_cap_flags, IBV_DEVICE_MEM_MGT_EXTENSIONS);
	assert_int_equal(dev.max_mw, 0);
	assert_null(ibv_alloc_mw(r->pd, IBV_MW_TYPE_2));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* providers/siw/siw.c has no resize_cq. */
static void completion_queues_stay_as_they_are(void **state)
{
	struct rig *r = *state;
	int cqe = r->a.scq->cqe;

	assert_int_equal(ibv_resize_cq(r->a.scq, 2 * cqe), EOPNOTSUPP);
	assert_int_equal(r->a.scq->cqe, cqe);
}

/* siw_post_send() and siw_post_receive(): in the error state they accept a request and drop it. */
static void posts_in_error_are_lost(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->a, 1, 0, 64), 0);
	assert_int_equal(to_state(r->a.qp, IBV_QPS_ERR), 0);
	assert_int_equal(recv_at(&r->a, 2, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 3, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_empty(r->a.rcq);
	expect_empty(r->a.scq);
}

static struct rdma_cm_event *next(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_event *e = NULL;

	assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1);
	assert_int_equal(rdma_get_cm_event(ch, &e), 0);
	assert_int_equal(e->event, type);
	return e;
}

/* RFC 5044 7.1.1, PD_Length: as long as it was sent, and not padded. */
static void private_data_has_its_length(void **state)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct ibv_qp_init_attr init = {.cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct rdma_conn_param p = {.private_data = "hello", .private_data_len = 6};
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_cm_id *listener, *id, *child;
	struct rdma_cm_event *e;

	assert_int_equal(rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&sin), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	sin.sin_port = rdma_get_src_port(listener);
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000), 0);
	rdma_ack_cm_event(next(ch, RDMA_CM_EVENT_ADDR_RESOLVED));
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	rdma_ack_cm_event(next(ch, RDMA_CM_EVENT_ROUTE_RESOLVED));
	assert_int_equal(rdma_create_qp(id, NULL, &init), 0);
	assert_int_equal(rdma_connect(id, &p), 0);
	e = next(ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	child = e->id;
	assert_int_equal(e->param.conn.private_data_len, 6);
	assert_string_equal(e->param.conn.private_data, "hello");
	rdma_ack_cm_event(e);
	assert_int_equal(rdma_reject(child, "no", 3), 0);
	e = next(ch, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(e->param.conn.private_data_len, 3);
	rdma_ack_cm_event(e);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(child), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(read_sink_needs_remote_write),
		T(no_immediates_and_no_atomics),
		T(no_windows),
		T(completion_queues_stay_as_they_are),
		T(posts_in_error_are_lost),
		cmocka_unit_test(private_data_has_its_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
