/* SPDX-License-Identifier: BSD-3-Clause */
/* See rig.h. */
#include "rig.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static const struct rig_opts defaults = {
	.init = {.cap = {.max_send_wr = RIG_DEPTH,
			 .max_recv_wr = RIG_DEPTH,
			 .max_send_sge = 4,
			 .max_recv_sge = 4,
			 .max_inline_data = 64},
		 .qp_type = IBV_QPT_RC},
	.access = ALL_ACCESS | IBV_ACCESS_MW_BIND,
	.qp_access = ALL_ACCESS,
	.rd_atomic = 4,
	.min_rnr_timer = 1,
	.rnr_retry = 7,
	.retry_cnt = 1,
	.timeout = 10, /* 4.2 ms */
	.scq_size = 256,
};
struct rig_opts rig_opts = defaults;

/* Between two looks at what has no event. */
static void nap(void)
{
	struct timespec t = {.tv_nsec = 200000};

	nanosleep(&t, NULL);
}

/* ---- states ---------------------------------------------------------------- */

int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};

	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rig_opts.qp_access};

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
}

/* The attributes of RC that UC has not (IBA table 91). */
static int mask_of(const struct ibv_qp *qp, int mask)
{
	const int reliable = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT |
			     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

	return qp->qp_type == IBV_QPT_UC ? mask & ~reliable : mask;
}

int to_rtr(struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
				.path_mtu = IBV_MTU_1024,
				.dest_qp_num = dest,
				.max_dest_rd_atomic = rig_opts.rd_atomic,
				.min_rnr_timer = rig_opts.min_rnr_timer,
				.ah_attr = {.port_num = 1, .is_global = 1}};

	return ibv_modify_qp(qp, &a,
			     mask_of(qp, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS,
				.timeout = rig_opts.timeout,
				.retry_cnt = rig_opts.retry_cnt,
				.rnr_retry = rig_opts.rnr_retry,
				.max_rd_atomic = rig_opts.rd_atomic};

	return ibv_modify_qp(qp, &a,
			     mask_of(qp, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						 IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						 IBV_QP_MAX_QP_RD_ATOMIC));
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	return a.qp_state;
}

void wait_for_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	for (int i = 0; i < RIG_PATIENCE_MS * 5 && state_of(qp) != state; i++)
		nap();
	assert_int_equal(state_of(qp), state);
}

/* ---- the pair -------------------------------------------------------------- */

struct ibv_qp *rig_new_qp(struct rig *r, struct end *e, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = rig_opts.init;

	init.send_cq = e->scq;
	init.recv_cq = e->rcq;
	init.srq = srq;
	return ibv_create_qp(r->pd, &init);
}

void *sealed_memory(size_t len, int seals, int *ret_fd)
{
	int fd = memfd_create("rig", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	*ret_fd = fd;
	return p;
}

static void end_up(struct rig *r, struct end *e, struct ibv_srq *srq)
{
	e->scq = ibv_create_cq(r->ctx, rig_opts.scq_size, NULL, NULL, 0);
	e->rcq = ibv_create_cq(r->ctx, 256, NULL, r->ch, 0);
	assert_non_null(e->scq);
	assert_non_null(e->rcq);
	e->fd = -1;
	if (getenv("RIG_MEMFD"))
		e->buf = sealed_memory(RIG_BUF, F_SEAL_SHRINK, &e->fd);
	else
		e->buf = mmap(NULL, RIG_BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	assert_ptr_not_equal(e->buf, MAP_FAILED);
	e->mr = ibv_reg_mr(r->pd, e->buf, RIG_BUF, rig_opts.access);
	assert_non_null(e->mr);
	e->qp = rig_new_qp(r, e, srq);
	assert_non_null(e->qp);
	assert_int_equal(to_init(e->qp), 0);
}

void rig_up(struct rig *r)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	assert_non_null(list);
	assert_non_null(list[0]);
	assert_string_equal(ibv_get_device_name(list[0]), "softrdma0");
	r->ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	assert_non_null(r->ctx);
	r->pd = ibv_alloc_pd(r->ctx);
	r->ch = ibv_create_comp_channel(r->ctx);
	assert_non_null(r->ch);
	fcntl(r->ch->fd, F_SETFL, O_NONBLOCK);
	end_up(r, &r->a, NULL);
	end_up(r, &r->b, rig_opts.srq_of_b ? rig_opts.srq_of_b(r) : NULL);
	assert_int_equal(to_rtr(r->a.qp, r->b.qp->qp_num), 0);
	assert_int_equal(to_rtr(r->b.qp, r->a.qp->qp_num), 0);
	assert_int_equal(to_rts(r->a.qp), 0);
	assert_int_equal(to_rts(r->b.qp), 0);
}

static void end_down(struct end *e)
{
	struct ibv_srq *srq = e->qp ? e->qp->srq : NULL;

	if (e->qp)
		assert_int_equal(ibv_destroy_qp(e->qp), 0);
	if (srq)
		assert_int_equal(ibv_destroy_srq(srq), 0);
	if (e->mr)
		assert_int_equal(ibv_dereg_mr(e->mr), 0);
	assert_int_equal(ibv_destroy_cq(e->scq), 0);
	assert_int_equal(ibv_destroy_cq(e->rcq), 0);
	munmap(e->buf, RIG_BUF);
	if (e->fd >= 0)
		close(e->fd);
}

void rig_down(struct rig *r)
{
	end_down(&r->a);
	end_down(&r->b);
	assert_int_equal(ibv_destroy_comp_channel(r->ch), 0);
	assert_int_equal(ibv_dealloc_pd(r->pd), 0);
	assert_int_equal(ibv_close_device(r->ctx), 0);
	rig_opts = defaults;
}

void rig_unmap(void *from, size_t n)
{
	assert_ptr_equal(mmap(from, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 from);
}

int rig_setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));

	if (!r)
		return -1;
	rig_up(r);
	*state = r;
	return 0;
}

int rig_teardown(void **state)
{
	rig_down(*state);
	free(*state);
	return 0;
}

/* ---- work requests --------------------------------------------------------- */

int recv_at(struct end *e, uint64_t id, size_t off, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)e->buf + off, len, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

int send_from(struct end *e, uint64_t id, size_t off, uint32_t len, unsigned flags)
{
	return rdma(e, IBV_WR_SEND, id, off, len, 0, 0, flags);
}

int rdma(struct end *e, enum ibv_wr_opcode op, uint64_t id, size_t off, uint32_t len,
	 uint64_t remote, uint32_t rkey, unsigned flags)
{
	struct ibv_sge sge = {(uintptr_t)e->buf + off, len, e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = flags,
				 .wr.rdma = {remote, rkey}},
			   *bad;

	return ibv_post_send(e->qp, &wr, &bad);
}

/* ---- completions and events ------------------------------------------------ */

struct ibv_wc next_wc(struct ibv_cq *cq)
{
	struct timespec now;
	struct ibv_wc wc;
	time_t end;
	int n;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec + RIG_PATIENCE_MS / 1000;
	while (!(n = ibv_poll_cq(cq, 1, &wc)) && now.tv_sec <= end) {
		nap();
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
	assert_int_equal(n, 1);
	return wc;
}

void expect_wc(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next_wc(cq);

	if (wc.status != status)
		print_message("wr %lu: %s\n", wc.wr_id, ibv_wc_status_str(wc.status));
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.status, status);
}

void expect_empty(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

enum ibv_event_type next_async(struct rig *r)
{
	struct pollfd p = {.fd = r->ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1);
	assert_int_equal(ibv_get_async_event(r->ctx, &ev), 0);
	ibv_ack_async_event(&ev);
	return ev.event_type;
}

/* The event of an SRQ that falls below its limit: as errors, it is raised by the helper, and it is
 * the next event. */
static void expect_limit_event(struct rig *r)
{
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_cq *cq = ibv_create_cq(r->ctx, 2, NULL, NULL, 0);
	struct ibv_srq *srq = ibv_create_srq(r->pd, &srq_init);
	struct ibv_qp_init_attr init = {.send_cq = cq,
					.recv_cq = cq,
					.srq = srq,
					.cap = {.max_send_wr = 1, .max_send_sge = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(r->pd, &init); /* connected to itself */
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr recv = {0}, *bad_recv;
	struct pollfd p = {.fd = r->ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	assert_non_null(qp);
	assert_int_equal(to_init(qp), 0);
	assert_int_equal(to_rtr(qp, qp->qp_num), 0);
	assert_int_equal(to_rts(qp), 0);
	assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad_recv), 0);
	assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	assert_int_equal(ibv_post_send(qp, &send, &bad_send), 0);
	assert_int_equal(poll(&p, 1, RIG_PATIENCE_MS), 1);
	assert_int_equal(ibv_get_async_event(r->ctx, &ev), 0);
	ibv_ack_async_event(&ev);
	assert_int_equal(ev.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(ev.element.srq, srq);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

void expect_no_async(struct rig *r)
{
	expect_limit_event(r);
	expect_limit_event(r); /* in another turn of the helper, whose first one is over */
}

/* ---- calls that wait --------------------------------------------------------- */

static void *make_call(void *arg)
{
	struct held_call *call = arg;

	atomic_store(&call->tid, gettid());
	call->make(call->context);
	atomic_store(&call->is_over, true);
	return NULL;
}

static bool is_asleep(int tid)
{
	char path[64], line[256] = "", *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "re");
	if (!f)
		return false; /* it has ended */
	state = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return state && state[2] == 'S';
}

void held_call_begin(struct held_call *call)
{
	bool is_held = false;

	assert_int_equal(pthread_create(&call->thread, NULL, make_call, call), 0);
	for (unsigned i = 0; i < RIG_PATIENCE_MS * 5 && !is_held; i++) {
		int tid = atomic_load(&call->tid);

		assert_false(atomic_load(&call->is_over));
		is_held = tid && is_asleep(tid);
		nap();
	}
	assert_true(is_held);
	assert_false(atomic_load(&call->is_over));
}

void held_call_end(struct held_call *call)
{
	pthread_join(call->thread, NULL);
	assert_true(atomic_load(&call->is_over));
}
