/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault injector: each knob has the effect that softrdma(1) documents, and everything still
 * completes. */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char control[64];

/* Returns when the helper has read the file: the registration that it refuses shows that. */
static void chaos(struct rig *r, const char *text)
{
	FILE *f = fopen(control, "we");
	struct ibv_mr *mr;

	assert_non_null(f);
	fprintf(f, "%s,refuse-mr=1\n", text);
	fclose(f);
	while ((mr = ibv_reg_mr(r->pd, r->a.buf, 64, 0)))
		assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(errno, ENOMEM);
}

static int setup(void **state)
{
	snprintf(control, sizeof(control), "/tmp/softrdma-chaos-%d", getpid());
	setenv("SOFTRDMA_CONTROL", control, 1);
	return rig_setup(state);
}

static int teardown(void **state)
{
	int r;

	chaos(*state, "");
	r = rig_teardown(state);
	unlink(control);
	return r;
}

static void traffic(struct rig *r, unsigned n)
{
	for (uint64_t i = 0; i < n; i++) {
		memset(r->a.buf, (int)i, 4096);
		memset(r->b.buf, 0xff, 4096);
		assert_int_equal(recv_at(&r->b, i, 0, 4096), 0);
		assert_int_equal(send_from(&r->a, i, 0, i & 1 ? 100 : 4000, IBV_SEND_SIGNALED), 0);
		assert_int_equal(rdma(&r->a, IBV_WR_RDMA_READ, 1000 + i, 8192, 64,
				      (uintptr_t)r->b.buf, r->b.mr->rkey, IBV_SEND_SIGNALED),
				 0);
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
		expect_wc(r->a.scq, 1000 + i, IBV_WC_SUCCESS);
		expect_wc(r->b.rcq, i, IBV_WC_SUCCESS);
		assert_memory_equal(r->a.buf, r->b.buf, i & 1 ? 100 : 4000);
	}
}

static int setup_slow(void **state)
{
	rig_opts.timeout = 16; /* 268 ms */
	return setup(state);
}

/* The call has returned, the work is not done: a lost packet costs one time-out. */
static void completes_after_the_call(void **state)
{
	struct rig *r = *state;

	chaos(r, "seed=1,loss=100");
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_empty(r->a.scq);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
}

static void everything_at_once(void **state)
{
	struct rig *r = *state;

	chaos(r,
	      "seed=1,defer=50,delay=300,remote-first=50,spurious=20,poll=1,chunk=20,late-ack=20,late-read=20,rnr=20,reorder=20");
	traffic(r, 200);
}

static void lost_packets(void **state)
{
	struct rig *r = *state;

	chaos(r, "seed=3,loss=50");
	traffic(r, 50);
}

static void fails_the_nth(void **state)
{
	struct rig *r = *state;

	chaos(r, "fail=3,status=10"); /* IBV_WC_REM_ACCESS_ERR */
	traffic(r, 1);
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, 0), 0);
	assert_int_equal(send_from(&r->a, 3, 0, 64, 0), 0);
	expect_wc(r->a.scq, 2, IBV_WC_REM_ACCESS_ERR);
	expect_wc(r->a.scq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of(r->a.qp), IBV_QPS_ERR);
}

/* ---- what is late ---------------------------------------------------------- */

static bool is_there(struct ibv_cq *cq, uint64_t *ret_id)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(cq, 1, &wc) != 1)
		return false;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	*ret_id = wc.wr_id;
	return true;
}

/* IBA 9.7.5.1.2: the acknowledgement may come after the responder has acted on the message. */
static void completes_after_the_peer(void **state)
{
	struct rig *r = *state;
	uint64_t id;

	chaos(r, "seed=1,late-ack=100,delay=20000000");
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
	expect_empty(r->a.scq);
	chaos(r, "");
	assert_int_equal(to_state(r->a.qp, IBV_QPS_ERR), 0);
	/* executed, and flushed all the same: IBA 10.3.1.6 leaves it open */
	expect_wc(r->a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_false(is_there(r->a.scq, &id));
}

/* IBA table 76: without a fence, what follows a READ may be done before it. */
static void overtakes_a_read(void **state)
{
	struct rig *r = *state;

	chaos(r, "seed=1,late-read=100,delay=3000000");
	memset(r->b.buf, 1, 64);
	memset(r->a.buf, 2, 64);
	assert_int_equal(recv_at(&r->b, 1, 4096, 64), 0);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_READ, 10, 8192, 64, (uintptr_t)r->b.buf,
			      r->b.mr->rkey, IBV_SEND_SIGNALED),
			 0);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, 11, 0, 64, (uintptr_t)r->b.buf,
			      r->b.mr->rkey, IBV_SEND_SIGNALED),
			 0);
	assert_int_equal(send_from(&r->a, 12, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
	expect_empty(r->a.scq); /* in order, so all of them wait for the READ */
	expect_wc(r->a.scq, 10, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 11, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 12, IBV_WC_SUCCESS);
	assert_int_equal(r->a.buf[8192], 2); /* what the later WRITE had put there */
}

/* IBA 10.8.3.3: with a fence it is not. */
static void fence_waits_for_a_read(void **state)
{
	struct rig *r = *state;

	chaos(r, "seed=1,late-read=100,delay=20000");
	memset(r->b.buf, 1, 64);
	memset(r->a.buf, 2, 64);
	assert_int_equal(
		rdma(&r->a, IBV_WR_RDMA_READ, 10, 8192, 64, (uintptr_t)r->b.buf, r->b.mr->rkey, 0),
		0);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, 11, 0, 64, (uintptr_t)r->b.buf,
			      r->b.mr->rkey, IBV_SEND_SIGNALED | IBV_SEND_FENCE),
			 0);
	expect_wc(r->a.scq, 11, IBV_WC_SUCCESS);
	assert_int_equal(r->a.buf[8192], 1);
	assert_int_equal(r->b.buf[0], 2);
}

/* A READ that fails ends the requests that overtook it: they are flushed, though the peer has
 * their data. */
static void late_read_fails(void **state)
{
	struct rig *r = *state;

	chaos(r, "seed=1,late-read=100,delay=3000000");
	assert_int_equal(recv_at(&r->b, 1, 4096, 64), 0);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_READ, 10, 8192, 64, (uintptr_t)r->b.buf,
			      r->b.mr->rkey + 256, IBV_SEND_SIGNALED),
			 0);
	assert_int_equal(send_from(&r->a, 11, 0, 64, 0), 0);
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 10, IBV_WC_REM_ACCESS_ERR);
	expect_wc(r->a.scq, 11, IBV_WC_WR_FLUSH_ERR);
}

/* A request that fails behind a READ does not complete before it: IBA 10.8.3.1, in order. */
static void late_read_before_a_failure(void **state)
{
	struct rig *r = *state;

	chaos(r, "seed=1,late-read=100,delay=2000000");
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_READ, 10, 8192, 64, (uintptr_t)r->b.buf,
			      r->b.mr->rkey, IBV_SEND_SIGNALED),
			 0);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, 11, 0, 64, (uintptr_t)r->b.buf,
			      r->b.mr->rkey + 256, 0),
			 0);
	expect_wc(r->a.scq, 10, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 11, IBV_WC_REM_ACCESS_ERR);
}

/* ---- pieces ---------------------------------------------------------------- */

static unsigned n_of_byte(const uint8_t *at, size_t n, uint8_t byte)
{
	unsigned found = 0;

	for (size_t i = 0; i < n; i++)
		found += at[i] == byte;
	return found;
}

/* IBA o9-20: memory that an RDMA WRITE is writing may hold any part of it. */
static void write_is_partly_there(void **state)
{
	struct rig *r = *state;
	bool was_partial = false, tail_first = false;

	chaos(r, "seed=1,chunk=100,delay=20000");
	for (unsigned i = 1; i < 100 && !(was_partial && tail_first); i++) {
		uint64_t id;

		memset(r->a.buf, (int)i, 32768);
		memset(r->b.buf, 0, 32768);
		assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, i, 0, 32768, (uintptr_t)r->b.buf,
				      r->b.mr->rkey, IBV_SEND_SIGNALED),
				 0);
		do {
			unsigned n = n_of_byte(r->b.buf, 32768, (uint8_t)i);

			was_partial |= n && n < 32768;
			tail_first |= r->b.buf[32767] == i && r->b.buf[0] == 0;
		} while (!is_there(r->a.scq, &id));
		assert_int_equal(id, i);
		assert_memory_equal(r->a.buf, r->b.buf, 32768);
	}
	assert_true(was_partial);
	assert_true(tail_first);
}

/* A QP that goes to ERR in the middle of a WRITE leaves the part that got through. */
static void write_stops_in_the_middle(void **state)
{
	struct rig *r = *state;
	uint8_t before[4096];
	unsigned n;

	memset(r->a.buf, 7, 32768);
	for (int i = 0;; i++) {
		assert_true(i < 50);
		chaos(r,
		      i & 1 ? "seed=2,chunk=100,delay=4000000" : "seed=1,chunk=100,delay=4000000");
		memset(r->b.buf, 0, 32768);
		assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, 1, 0, 32768, (uintptr_t)r->b.buf,
				      r->b.mr->rkey, 0),
				 0);
		n = n_of_byte(r->b.buf, 32768, 7);
		if (n && n < 32768)
			break;
	}
	assert_int_equal(to_state(r->a.qp, IBV_QPS_ERR), 0);
	expect_wc(r->a.scq, 1, IBV_WC_WR_FLUSH_ERR);
	memcpy(before, r->b.buf, sizeof(before));
	chaos(r, ""); /* nothing more comes */
	assert_memory_equal(before, r->b.buf, sizeof(before));
}

static void sends_and_reads_in_pieces(void **state)
{
	struct rig *r = *state;

	chaos(r, "seed=4,chunk=100,delay=100");
	traffic(r, 50);
}

/* ---- receivers that are not ready, order between queue pairs --------------- */

static int setup_no_rnr_retry(void **state)
{
	rig_opts.rnr_retry = 0;
	return setup(state);
}

/* IBA 9.7.5.2.8: a responder may answer RNR for lack of other resources, too. */
static void not_ready_without_retries(void **state)
{
	struct rig *r = *state;

	chaos(r, "rnr=100");
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, 2, 0, 64, (uintptr_t)r->b.buf,
			      r->b.mr->rkey, IBV_SEND_SIGNALED),
			 0);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS); /* needs no receive */
	assert_int_equal(send_from(&r->a, 3, 0, 64, 0), 0);
	expect_wc(r->a.scq, 3, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void not_ready_for_a_while(void **state)
{
	struct rig *r = *state;

	chaos(r, "seed=1,rnr=100,delay=2000");
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
	traffic(r, 50);
}

enum {
	N_EACH = 10
};

/* WRITEs on two queue pairs in turn, whose completions come to one queue. */
static void poll_two(struct rig *r, const char *text, uint64_t ids[2 * N_EACH])
{
	struct end second = r->b; /* its completions go where those of a go */

	second.scq = r->a.scq;
	second.qp = rig_new_qp(r, &second, NULL);
	assert_non_null(second.qp);
	assert_int_equal(to_init(second.qp), 0);
	assert_int_equal(to_rtr(second.qp, second.qp->qp_num), 0); /* to itself */
	assert_int_equal(to_rts(second.qp), 0);
	chaos(r, text);
	for (uint64_t i = 0; i < N_EACH; i++) {
		assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, i, 0, 64, (uintptr_t)r->b.buf,
				      r->b.mr->rkey, IBV_SEND_SIGNALED),
				 0);
		assert_int_equal(rdma(&second, IBV_WR_RDMA_WRITE, 100 + i, 0, 64,
				      (uintptr_t)r->b.buf, r->b.mr->rkey, IBV_SEND_SIGNALED),
				 0);
	}
	for (int n = 0; n < 2 * N_EACH; n++)
		assert_true(is_there(r->a.scq, &ids[n]));
	assert_int_equal(ibv_destroy_qp(second.qp), 0);
}

/* IBA 10.8.3.1 orders the completions of one queue pair; two in a CQ are in any order. */
static void order_between_queue_pairs(void **state)
{
	uint64_t ids[2 * N_EACH], next[2] = {0, 100};
	bool is_mixed = false;

	poll_two(*state, "seed=1,reorder=50", ids);
	for (unsigned i = 0; i < 2 * N_EACH; i++) {
		assert_int_equal(ids[i], next[ids[i] >= 100]++);
		is_mixed |= (ids[i] >= 100) != (i & 1);
	}
	assert_true(is_mixed);
}

static void same_seed_same_faults(void **state)
{
	uint64_t once[2 * N_EACH], again[2 * N_EACH], other[2 * N_EACH];

	poll_two(*state, "seed=11,reorder=50", once);
	poll_two(*state, "seed=11,reorder=50", again);
	poll_two(*state, "seed=12,reorder=50", other);
	assert_memory_equal(once, again, sizeof(once));
	assert_memory_not_equal(once, other, sizeof(once));
}

/* ---- events ---------------------------------------------------------------- */

static enum ibv_port_state port_state(struct rig *r)
{
	struct ibv_port_attr a;

	assert_int_equal(ibv_query_port(r->ctx, 1, &a), 0);
	return a.state;
}

/* IBA 11.6.3.4: port errors and port active; waiting requests resume when the link is back. */
static void pulls_the_cable(void **state)
{
	struct rig *r = *state;

	chaos(r, "port-down");
	assert_int_equal(next_async(r), IBV_EVENT_PORT_ERR);
	assert_int_equal(port_state(r), IBV_PORT_DOWN);
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_empty(r->a.scq);
	chaos(r, "");
	assert_int_equal(next_async(r), IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(port_state(r), IBV_PORT_ACTIVE);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
}

static int setup_patient(void **state)
{
	rig_opts.timeout = 0; /* for ever */
	return setup(state);
}

static void cable_stays_pulled(void **state)
{
	struct rig *r = *state;

	chaos(r, "port-down");
	assert_int_equal(next_async(r), IBV_EVENT_PORT_ERR);
	assert_int_equal(send_from(&r->a, 2, 0, 64, 0), 0);
	expect_wc(r->a.scq, 2, IBV_WC_RETRY_EXC_ERR);
}

static void changes_the_gids(void **state)
{
	struct rig *r = *state;

	chaos(r, "gid-change");
	assert_int_equal(next_async(r), IBV_EVENT_GID_CHANGE);
	chaos(r, "");
	expect_no_async(r);
}

/* chaos() above relies on it: refused once, and then no more. */
static void refuses_a_registration(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *mr;

	chaos(r, "");
	mr = ibv_reg_mr(r->pd, r->a.buf, 64, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void exhausts_a_queue(void **state)
{
	struct rig *r = *state;

	chaos(r, "overrun=1");
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	assert_int_equal(next_async(r), IBV_EVENT_CQ_ERR);
}

/* A device with a fault: work requests and flushed receives end only with their queue pair. */
static void loses_completions(void **state)
{
	struct rig *r = *state;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	chaos(r, "lose=100");
	assert_int_equal(recv_at(&r->b, 1, 4096, 64), 0);
	assert_int_equal(recv_at(&r->b, 2, 4096, 64), 0);
	assert_int_equal(send_from(&r->a, 10, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_modify_qp(r->b.qp, &error, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_qp(r->a.qp, &error, IBV_QP_STATE), 0);
	expect_empty(r->b.rcq);
	expect_empty(r->a.scq);
}

static void spurious_events(void **state)
{
	struct rig *r = *state;
	struct pollfd p = {.fd = r->ch->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	chaos(r, "spurious=100");
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, 0), 0);
	assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1); /* it was not even armed */
	assert_int_equal(ibv_get_cq_event(r->ch, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
}

/* The next event of a channel, which must be this one. */
static struct rdma_cm_event *next_cm(struct rdma_event_channel *ch, enum rdma_cm_event_type type,
				     int status)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_event *e = NULL;

	assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1);
	assert_int_equal(rdma_get_cm_event(ch, &e), 0);
	assert_int_equal(e->event, type);
	assert_int_equal(e->status, status);
	return e;
}

static void skip_cm(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	rdma_ack_cm_event(next_cm(ch, type, 0));
}

/* IBA 12.9.7.1 and the kernel's cma_ib_handler(): a REQ whose retries are over. */
static void unanswered_request_is_given_up(void **state)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct ibv_qp_init_attr init = {.cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_cm_id *listener, *id, *child;
	struct rdma_cm_event *e;

	chaos(*state, "cm-timeout=100");
	assert_int_equal(rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&sin), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	sin.sin_port = rdma_get_src_port(listener);
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000), 0);
	skip_cm(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	skip_cm(ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_create_qp(id, NULL, &init), 0);
	assert_int_equal(rdma_connect(id, NULL), 0);
	e = next_cm(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	child = e->id; /* which does nothing */
	rdma_ack_cm_event(e);
	e = next_cm(ch, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	assert_ptr_equal(e->id, id);
	rdma_ack_cm_event(e);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(child), 0);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(ch);
}

static void removes_the_device(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	chaos(r, "remove");
	assert_int_equal(next_async(r), IBV_EVENT_DEVICE_FATAL);
	expect_wc(r->b.rcq, 1, IBV_WC_WR_FLUSH_ERR);
}

static bool device_is_there(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool is_there;

	assert_non_null(list);
	is_there = list[0] != NULL;
	ibv_free_device_list(list);
	return is_there;
}

/* A context is gone when the helper has processed its descriptor's hang-up: soon after the
 * close. */
static void wait_for_device(void)
{
	for (unsigned ms = 0; !device_is_there(); ms++) {
		assert_true(ms < RIG_PATIENCE_MS);
		usleep(1000);
	}
}

static int teardown_removed(void **state)
{
	int r = teardown(state);

	wait_for_device();
	return r;
}

/* Existing objects hold the device, and it returns as soon as none does. */
static void comes_back(void **state)
{
	struct rig *r = *state;

	for (unsigned i = 0; i < 20; i++) {
		chaos(r, "remove=2");
		assert_false(device_is_there());
		chaos(r, "");
		assert_false(device_is_there());
		unlink(control);
		rig_down(r);
		wait_for_device();
		rig_up(r);
	}
}

static int setup_unreliable(void **state)
{
	rig_opts.init.qp_type = IBV_QPT_UC;
	return setup(state);
}

/* softrdma(1), drop: on one host it loses whole messages of UC, and nothing else happens. */
static void loses_messages(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->b, 3, 0, 64), 0);
	chaos(r, "drop=100");
	for (uint64_t i = 0; i < 20; i++) {
		assert_int_equal(send_from(&r->a, i, 0, 8, IBV_SEND_SIGNALED), 0);
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
	}
	expect_empty(r->b.rcq);
	chaos(r, "");
	assert_int_equal(send_from(&r->a, 20, 0, 8, IBV_SEND_SIGNALED), 0);
	expect_wc(r->b.rcq, 3, IBV_WC_SUCCESS);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(completes_after_the_call, setup_slow, teardown),
		T(everything_at_once),
		T(lost_packets),
		T(fails_the_nth),
		T(refuses_a_registration),
		T(exhausts_a_queue),
		T(spurious_events),
		T(loses_completions),
		cmocka_unit_test_setup_teardown(loses_messages, setup_unreliable, teardown),
		cmocka_unit_test_setup_teardown(removes_the_device, setup, teardown_removed),
		T(comes_back),
		T(completes_after_the_peer),
		T(overtakes_a_read),
		T(fence_waits_for_a_read),
		T(late_read_fails),
		T(late_read_before_a_failure),
		T(write_is_partly_there),
		T(write_stops_in_the_middle),
		T(sends_and_reads_in_pieces),
		cmocka_unit_test_setup_teardown(not_ready_without_retries, setup_no_rnr_retry,
						teardown),
		T(not_ready_for_a_while),
		T(order_between_queue_pairs),
		cmocka_unit_test_setup_teardown(pulls_the_cable, setup_patient, teardown),
		T(cable_stays_pulled),
		T(changes_the_gids),
		T(same_seed_same_faults),
		T(unanswered_request_is_given_up), /* last: rdma_cm keeps a context */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
