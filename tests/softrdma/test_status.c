/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which side gets which error. Sources: IBA tables 58 to 61 (requester's and responder's errors,
 * their completion statuses and their effects on the QPs), 9.7.5.2.8 (RNR).
 */
#include "rig.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static struct timespec started;

static void start_clock(void)
{
	clock_gettime(CLOCK_MONOTONIC, &started);
}

static double elapsed_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - started.tv_sec) * 1e3 +
	       (double)(now.tv_nsec - started.tv_nsec) / 1e6;
}

/* After the first error: later requests are flushed, in order, on both sides. */
static void expect_broken_pair(struct rig *r)
{
	wait_for_state(r->a.qp, IBV_QPS_ERR);
	wait_for_state(r->b.qp, IBV_QPS_ERR);
}

/* ibv_poll_cq(3): which operation it was and how many bytes, in the completions of success. */
static void good_paths(void **state)
{
	struct rig *r = *state;
	struct ibv_wc wc;

	memset(r->a.buf, 'x', 4096);
	for (uint32_t len = 0; len <= 4096; len = len ? len * 4 : 1) {
		memset(r->b.buf, 0, RIG_BUF);
		assert_int_equal(recv_at(&r->b, 1, 0, 4096), 0);
		assert_int_equal(send_from(&r->a, 2, 0, len, IBV_SEND_SIGNALED), 0);
		wc = next_wc(r->a.scq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_SEND);
		wc = next_wc(r->b.rcq);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, len);
		assert_int_equal(wc.qp_num, r->b.qp->qp_num);
		assert_int_equal(wc.src_qp, r->a.qp->qp_num);
		assert_memory_equal(r->a.buf, r->b.buf, len);
		assert_int_equal(r->b.buf[len], 0);
	}
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, 3, 0, 4096, (uintptr_t)r->b.buf,
			      r->b.mr->rkey, IBV_SEND_SIGNALED),
			 0);
	expect_wc(r->a.scq, 3, IBV_WC_SUCCESS);
	assert_memory_equal(r->a.buf, r->b.buf, 4096);
	memset(r->b.buf, 'y', 4096);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_READ, 4, 0, 4096, (uintptr_t)r->b.buf,
			      r->b.mr->rkey, IBV_SEND_SIGNALED),
			 0);
	wc = next_wc(r->a.scq);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_int_equal(wc.byte_len, 4096);
	assert_memory_equal(r->a.buf, r->b.buf, 4096);
}

/* IBA 9.4.1 and 9.4.3: with a SEND, and with a WRITE, which then takes a receive. */
static void immediate_data(void **state)
{
	struct rig *r = *state;
	struct ibv_sge sge = {(uintptr_t)r->a.buf, 100, r->a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = 0x12345678},
			   *bad;
	struct ibv_wc wc;

	assert_int_equal(recv_at(&r->b, 1, 0, 4096), 0);
	assert_int_equal(recv_at(&r->b, 2, 0, 0), 0);
	assert_int_equal(ibv_post_send(r->a.qp, &wr, &bad), 0);
	wc = next_wc(r->b.rcq);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x12345678);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.wr.rdma.remote_addr = (uintptr_t)r->b.buf + 8192;
	wr.wr.rdma.rkey = r->b.mr->rkey;
	memset(r->a.buf, 'i', 100);
	assert_int_equal(ibv_post_send(r->a.qp, &wr, &bad), 0);
	wc = next_wc(r->b.rcq);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 100);
	assert_int_equal(wc.imm_data, 0x12345678);
	assert_memory_equal(r->a.buf, r->b.buf + 8192, 100);
}

/* Table 60: local protection error; nothing reaches the responder. */
static void bad_local_key(void **state)
{
	struct rig *r = *state;
	struct ibv_mr good = *r->a.mr;

	assert_int_equal(recv_at(&r->b, 1, 0, 4096), 0);
	r->a.mr->lkey ^= 0x100;
	assert_int_equal(send_from(&r->a, 2, 0, 64, 0), 0);
	assert_int_equal(send_from(&r->a, 3, 0, 64, 0), 0);
	expect_wc(r->a.scq, 2, IBV_WC_LOC_PROT_ERR);
	expect_wc(r->a.scq, 3, IBV_WC_WR_FLUSH_ERR);
	r->a.mr->lkey = good.lkey;
	assert_int_equal(state_of(r->a.qp), IBV_QPS_ERR);
	assert_int_equal(state_of(r->b.qp), IBV_QPS_RTS);
	expect_empty(r->b.rcq);
}

/* IBA 10.6.2: a local key is no remote key, and the reverse. */
static void keys_are_not_interchangeable(void **state)
{
	struct rig *r = *state;

	assert_int_not_equal(r->a.mr->lkey, r->a.mr->rkey);
	assert_int_equal(
		rdma(&r->a, IBV_WR_RDMA_WRITE, 1, 0, 64, (uintptr_t)r->b.buf, r->b.mr->lkey, 0), 0);
	expect_wc(r->a.scq, 1, IBV_WC_REM_ACCESS_ERR);
}

/* Table 60 again: beyond the end of the local region, by one byte. */
static void local_bounds(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->b, 1, 0, 4096), 0);
	assert_int_equal(send_from(&r->a, 2, RIG_BUF - 63, 64, 0), 0);
	expect_wc(r->a.scq, 2, IBV_WC_LOC_PROT_ERR);
}

static void remote_access(struct rig *r, enum ibv_wr_opcode op, uint64_t addr, uint32_t rkey)
{
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(rdma(&r->a, op, 2, 0, 64, addr, rkey, 0), 0);
	assert_int_equal(rdma(&r->a, op, 3, 0, 64, addr, rkey, 0), 0);
	expect_wc(r->a.scq, 2, IBV_WC_REM_ACCESS_ERR);
	expect_wc(r->a.scq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_wc(r->b.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	expect_broken_pair(r);
	assert_int_equal(next_async(r), IBV_EVENT_QP_ACCESS_ERR);
	expect_no_async(r);
}

/* Table 61 and IBA 9.7.4.1.3 to .5, to deregistered_key(): each is a remote access error. */
static void bad_remote_key(void **state)
{
	struct rig *r = *state;

	remote_access(r, IBV_WR_RDMA_WRITE, (uintptr_t)r->b.buf, r->b.mr->rkey ^ 1);
}

static void remote_bounds_end(void **state)
{
	struct rig *r = *state;

	remote_access(r, IBV_WR_RDMA_READ, (uintptr_t)r->b.buf + RIG_BUF - 63, r->b.mr->rkey);
}

static void remote_bounds_start(void **state)
{
	struct rig *r = *state;

	remote_access(r, IBV_WR_RDMA_READ, (uintptr_t)r->b.buf - 1, r->b.mr->rkey);
}

static void remote_bounds_overflow(void **state)
{
	struct rig *r = *state;

	remote_access(r, IBV_WR_RDMA_WRITE, UINT64_MAX - 10, r->b.mr->rkey);
}

/* The region allows it, the QP's access flags do not. */
static int setup_qp_without_write(void **state)
{
	rig_opts.qp_access = IBV_ACCESS_REMOTE_READ;
	return rig_setup(state);
}

static void qp_access_flags_count(void **state)
{
	struct rig *r = *state;

	remote_access(r, IBV_WR_RDMA_WRITE, (uintptr_t)r->b.buf, r->b.mr->rkey);
}

static int setup_region_without_read(void **state)
{
	rig_opts.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	return rig_setup(state);
}

static void region_access_flags_count(void **state)
{
	struct rig *r = *state;

	remote_access(r, IBV_WR_RDMA_READ, (uintptr_t)r->b.buf, r->b.mr->rkey);
}

/* IBA 10.2.3: a key works only for QPs of its protection domain. */
static void other_protection_domain(void **state)
{
	struct rig *r = *state;
	struct ibv_pd *pd = ibv_alloc_pd(r->ctx);
	struct ibv_mr *mr = ibv_reg_mr(pd, r->b.buf, RIG_BUF, rig_opts.access);

	remote_access(r, IBV_WR_RDMA_WRITE, (uintptr_t)r->b.buf, mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void deregistered_key(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *mr = ibv_reg_mr(r->pd, r->b.buf, RIG_BUF, rig_opts.access);
	uint32_t rkey = mr->rkey;

	assert_int_equal(ibv_dereg_mr(mr), 0);
	remote_access(r, IBV_WR_RDMA_WRITE, (uintptr_t)r->b.buf, rkey);
}

/* Table 59: the message is longer than the receive. */
static void message_too_long(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->b, 1, 0, 63), 0);
	assert_int_equal(recv_at(&r->b, 2, 0, 64), 0);
	assert_int_equal(send_from(&r->a, 3, 0, 64, 0), 0);
	expect_wc(r->a.scq, 3, IBV_WC_REM_INV_REQ_ERR);
	expect_wc(r->b.rcq, 1, IBV_WC_LOC_LEN_ERR);
	expect_wc(r->b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_broken_pair(r);
	assert_int_equal(next_async(r), IBV_EVENT_QP_REQ_ERR);
}

/* Table 59: the receive's own buffers are not valid. */
static void bad_receive_buffer(void **state)
{
	struct rig *r = *state;

	r->b.mr->lkey ^= 0x100;
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	r->b.mr->lkey ^= 0x100;
	assert_int_equal(send_from(&r->a, 2, 0, 64, 0), 0);
	expect_wc(r->a.scq, 2, IBV_WC_REM_OP_ERR);
	expect_wc(r->b.rcq, 1, IBV_WC_LOC_PROT_ERR);
	expect_broken_pair(r);
}

/*
 * Registered, but the pages are gone: an adapter would not notice, the copy does. IBA 11.6.3.2: an
 * error that stops a work queue is its catastrophic error.
 */
static void unmapped_under_registration(void **state)
{
	struct rig *r = *state;
	uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(r->pd, p, 8192, rig_opts.access);

	rig_unmap(p + 4096, 4096);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, 1, 0, 8192, (uintptr_t)p, mr->rkey, 0), 0);
	expect_wc(r->a.scq, 1, IBV_WC_REM_OP_ERR);
	expect_broken_pair(r);
	assert_int_equal(next_async(r), IBV_EVENT_QP_FATAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(p, 8192);
}

/*
 * ibv_poll_cq(3): an error defines wr_id, status, qp_num and vendor_err only; another field must
 * not by chance have the value that a program expects.
 */
static void errors_define_four_fields(void **state)
{
	struct rig *r = *state;
	struct ibv_wc wc;

	assert_int_equal(recv_at(&r->a, 7, 0, 64), 0);
	assert_int_equal(to_state(r->a.qp, IBV_QPS_ERR), 0);
	wc = next_wc(r->a.rcq);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.qp_num, r->a.qp->qp_num);
	assert_int_not_equal(wc.vendor_err, 0);
	assert_int_not_equal(wc.opcode, IBV_WC_RECV);
	assert_true(wc.byte_len > 64);
	assert_int_equal(send_from(&r->a, 8, 0, 64, 0), 0);
	wc = next_wc(r->a.scq);
	assert_int_equal(wc.wr_id, 8);
	assert_int_not_equal(wc.opcode, IBV_WC_SEND);
}

/* IBA 9.7.5.2.6: nothing is checked for an operation of length 0. */
static void zero_length_needs_no_key(void **state)
{
	struct rig *r = *state;

	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, 1, 0, 0, 0, 0, IBV_SEND_SIGNALED), 0);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_READ, 2, 0, 0, 0, 0, IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.scq, 1, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
}

/* ---- receiver not ready ------------------------------------------------------ */

static int setup_rnr(void **state)
{
	rig_opts.min_rnr_timer = 14; /* 1.28 ms */
	rig_opts.rnr_retry = 5;
	return rig_setup(state);
}

/* IBA 9.7.5.2.8: retried rnr_retry times, the receiver's timer apart. */
static void rnr_gives_up(void **state)
{
	struct rig *r = *state;

	start_clock();
	assert_int_equal(send_from(&r->a, 1, 0, 64, 0), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, 0), 0);
	expect_wc(r->a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_true(elapsed_ms() >= 6.4);
	expect_wc(r->a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of(r->b.qp), IBV_QPS_RTS);
}

static int setup_rnr_none(void **state)
{
	rig_opts.rnr_retry = 0;
	return rig_setup(state);
}

/* The same with none: the first RNR NAK is the end. */
static void rnr_without_retries(void **state)
{
	struct rig *r = *state;

	assert_int_equal(send_from(&r->a, 1, 0, 64, 0), 0);
	expect_wc(r->a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
}

/* A pair beside the rig's, whose sender retries 6 times, gives up: with the same timer 7 retries
 * begun before the first of two such pairs are over before the second one's. */
static void outlast_a_pair(struct rig *r)
{
	struct end a = r->a, b = r->b;

	a.scq = ibv_create_cq(r->ctx, 1, NULL, NULL, 0);
	a.qp = rig_new_qp(r, &a, NULL);
	b.qp = rig_new_qp(r, &b, NULL);
	assert_int_equal(to_init(a.qp), 0);
	assert_int_equal(to_init(b.qp), 0);
	assert_int_equal(to_rtr(a.qp, b.qp->qp_num), 0);
	assert_int_equal(to_rtr(b.qp, a.qp->qp_num), 0);
	rig_opts.rnr_retry = 6;
	assert_int_equal(to_rts(a.qp), 0);
	assert_int_equal(send_from(&a, 20, 0, 64, 0), 0);
	expect_wc(a.scq, 20, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(ibv_destroy_qp(a.qp), 0);
	assert_int_equal(ibv_destroy_qp(b.qp), 0);
	assert_int_equal(ibv_destroy_cq(a.scq), 0);
}

/* 7 means for ever; the send goes on when a receive is posted, and in order. */
static void rnr_resumes(void **state)
{
	struct rig *r = *state;

	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(send_from(&r->a, i, 0, 64, IBV_SEND_SIGNALED), 0);
	outlast_a_pair(r);
	outlast_a_pair(r);
	expect_empty(r->a.scq);
	for (uint64_t i = 0; i < 5; i++) {
		assert_int_equal(recv_at(&r->b, 10 + i, 0, 64), 0);
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
		expect_wc(r->b.rcq, 10 + i, IBV_WC_SUCCESS);
	}
}

/* ---- no answer ---------------------------------------------------------- */

/* IBA 10.3.1.5: a QP in error takes no packets, so none is answered. */
static void peer_in_error(void **state)
{
	struct rig *r = *state;

	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(to_state(r->b.qp, IBV_QPS_ERR), 0);
	expect_wc(r->b.rcq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(send_from(&r->a, 1, 0, 64, 0), 0);
	expect_wc(r->a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	expect_empty(r->b.rcq);
}

/* IBA 9.7.6.1.3: (retry_cnt + 1) time-outs of 4.096 us * 2^timeout. */
static void peer_in_reset(void **state)
{
	struct rig *r = *state;

	assert_int_equal(to_state(r->b.qp, IBV_QPS_RESET), 0);
	start_clock();
	assert_int_equal(send_from(&r->a, 1, 0, 64, 0), 0);
	assert_int_equal(send_from(&r->a, 2, 0, 64, 0), 0);
	expect_wc(r->a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	assert_true(elapsed_ms() >= 8.3);
	expect_wc(r->a.scq, 2, IBV_WC_WR_FLUSH_ERR);
}

/* The same for a QP that is gone, or never was. */
static void peer_destroyed(void **state)
{
	struct rig *r = *state;

	assert_int_equal(ibv_destroy_qp(r->b.qp), 0);
	r->b.qp = NULL;
	assert_int_equal(send_from(&r->a, 1, 0, 64, 0), 0);
	expect_wc(r->a.scq, 1, IBV_WC_RETRY_EXC_ERR);
}

static void peer_does_not_exist(void **state)
{
	struct rig *r = *state;
	struct end e = r->a;

	e.qp = rig_new_qp(r, &r->a, NULL);
	assert_int_equal(to_init(e.qp), 0);
	assert_int_equal(to_rtr(e.qp, 0x000301), 0);
	assert_int_equal(to_rts(e.qp), 0);
	assert_int_equal(send_from(&e, 1, 0, 64, 0), 0);
	expect_wc(r->a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(ibv_destroy_qp(e.qp), 0);
}

/* IBA 9.7.6.1.3: sent before the peer is ready to receive, it arrives by a retry. */
static void peer_comes_to_rtr_later(void **state)
{
	struct rig *r = *state;
	struct end a = r->a, b = r->b;

	rig_opts.timeout = 20; /* 4.3 s, eight times */
	rig_opts.retry_cnt = 7;
	a.qp = rig_new_qp(r, &r->a, NULL);
	b.qp = rig_new_qp(r, &r->b, NULL);
	assert_int_equal(to_init(a.qp), 0);
	assert_int_equal(to_init(b.qp), 0);
	assert_int_equal(recv_at(&b, 1, 0, 64), 0);
	assert_int_equal(to_rtr(a.qp, b.qp->qp_num), 0);
	assert_int_equal(to_rts(a.qp), 0);
	assert_int_equal(send_from(&a, 2, 0, 64, IBV_SEND_SIGNALED), 0);
	expect_empty(r->a.scq);
	start_clock();
	assert_int_equal(to_rtr(b.qp, a.qp->qp_num), 0);
	expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
	assert_true(elapsed_ms() < 25000); /* at once, not when the retries are over */
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
	assert_int_equal(next_async(r), IBV_EVENT_COMM_EST); /* IBA 11.6.3.1: data in RTR */
	assert_int_equal(ibv_destroy_qp(a.qp), 0);
	assert_int_equal(ibv_destroy_qp(b.qp), 0);
}

static int setup_no_rd_atomic(void **state)
{
	rig_opts.rd_atomic = 0;
	return rig_setup(state);
}

/* IBA 9.4.4: READ needs resources on both sides. */
static void read_without_resources(void **state)
{
	struct rig *r = *state;

	assert_int_equal(
		rdma(&r->a, IBV_WR_RDMA_READ, 1, 0, 64, (uintptr_t)r->b.buf, r->b.mr->rkey, 0), 0);
	expect_wc(r->a.scq, 1, IBV_WC_LOC_QP_OP_ERR);
}

/* The same: three READs at once for a responder that was asked for two. */
static void more_reads_than_resources(void **state)
{
	struct rig *r = *state;
	struct ibv_sge sge = {(uintptr_t)r->a.buf, 64, r->a.mr->lkey};
	struct ibv_send_wr wr[3], *bad;
	struct end a = r->a, b = r->b;

	a.qp = rig_new_qp(r, &r->a, NULL);
	b.qp = rig_new_qp(r, &r->b, NULL);
	assert_int_equal(to_init(a.qp), 0);
	assert_int_equal(to_init(b.qp), 0);
	assert_int_equal(to_rtr(a.qp, b.qp->qp_num), 0);
	assert_int_equal(to_rts(a.qp), 0); /* initiator depth 4 */
	rig_opts.rd_atomic = 2;
	assert_int_equal(to_rtr(b.qp, a.qp->qp_num), 0);
	for (unsigned i = 0; i < 3; i++)
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_READ,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)r->b.buf, r->b.mr->rkey},
			.next = i < 2 ? &wr[i + 1] : NULL,
		};
	assert_int_equal(ibv_post_send(a.qp, wr, &bad), 0);
	expect_wc(r->a.scq, 0, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 1, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 2, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(ibv_destroy_qp(a.qp), 0);
	assert_int_equal(ibv_destroy_qp(b.qp), 0);
}

/* ---- atomics ------------------------------------------------------------------- */

static int post_atomic(struct rig *r, enum ibv_wr_opcode op, size_t at, uint64_t compare_add,
		       uint64_t swap)
{
	struct ibv_sge sge = {(uintptr_t)r->a.buf, 8, r->a.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.atomic = {(uintptr_t)r->b.buf + at, compare_add, swap,
					       r->b.mr->rkey}},
			   *bad;

	return ibv_post_send(r->a.qp, &wr, &bad);
}

/* IBA 9.4.5: what was there is returned; a comparison that fails changes nothing. */
static void atomics(void **state)
{
	struct rig *r = *state;
	uint64_t *target = (uint64_t *)(void *)r->b.buf, *result = (uint64_t *)(void *)r->a.buf;

	*target = 40;
	assert_int_equal(post_atomic(r, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 2, 0), 0);
	assert_int_equal(next_wc(r->a.scq).opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(*result, 40);
	assert_int_equal(*target, 42);
	assert_int_equal(post_atomic(r, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 41, 7), 0);
	assert_int_equal(next_wc(r->a.scq).opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(*target, 42);
	assert_int_equal(post_atomic(r, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 42, 7), 0);
	expect_wc(r->a.scq, 0, IBV_WC_SUCCESS);
	assert_int_equal(*result, 42);
	assert_int_equal(*target, 7);
}

/* IBA 9.7.5.2.6: atomics are to aligned addresses. */
static void unaligned_atomic(void **state)
{
	struct rig *r = *state;

	assert_int_equal(post_atomic(r, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 2, 0), 0);
	expect_wc(r->a.scq, 0, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(next_async(r), IBV_EVENT_QP_REQ_ERR);
}

#define TS(f, s) cmocka_unit_test_setup_teardown(f, s, rig_teardown)
#define T(f)	 TS(f, rig_setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(good_paths),
		T(immediate_data),
		T(bad_local_key),
		T(keys_are_not_interchangeable),
		T(local_bounds),
		T(bad_remote_key),
		T(remote_bounds_end),
		T(remote_bounds_start),
		T(remote_bounds_overflow),
		TS(qp_access_flags_count, setup_qp_without_write),
		TS(region_access_flags_count, setup_region_without_read),
		T(other_protection_domain),
		T(deregistered_key),
		T(message_too_long),
		T(bad_receive_buffer),
		T(unmapped_under_registration),
		T(errors_define_four_fields),
		T(zero_length_needs_no_key),
		TS(rnr_gives_up, setup_rnr),
		TS(rnr_without_retries, setup_rnr_none),
		T(rnr_resumes),
		T(peer_in_reset),
		T(peer_in_error),
		T(peer_destroyed),
		T(peer_does_not_exist),
		T(peer_comes_to_rtr_later),
		TS(read_without_resources, setup_no_rd_atomic),
		T(more_reads_than_resources),
		T(atomics),
		T(unaligned_atomic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
