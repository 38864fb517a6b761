/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many work requests posted at once: each has the same effect as alone. The provider moves the data
 * of several with one system call (shm_copy.c), which no program may notice. Sources as in
 * test_order.c and test_status.c: IBA 9.5 (order), tables 60 and 61 (errors), 10.3.1.5 (flushing).
 */
#include "rig.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

enum {
	N = 40, /* more than one system call takes */
	PIECE = 512,
	BAD = 5, /* the one that fails */
};

struct chain {
	struct ibv_send_wr wr[2 * N];
	struct ibv_sge sge[2 * N][2];
	unsigned n;
};

static struct ibv_send_wr *add(struct chain *c, enum ibv_wr_opcode opcode, uint64_t id)
{
	struct ibv_send_wr *wr = &c->wr[c->n];

	*wr = (struct ibv_send_wr){.wr_id = id,
				   .sg_list = c->sge[c->n],
				   .opcode = opcode,
				   .send_flags = IBV_SEND_SIGNALED};
	if (c->n++)
		wr[-1].next = wr;
	return wr;
}

/* Piece i of a's buffer, in two parts, to or from piece i of b's. */
static struct ibv_send_wr *add_rdma(struct chain *c, struct rig *r, enum ibv_wr_opcode opcode,
				    unsigned i)
{
	struct ibv_send_wr *wr = add(c, opcode, i);
	uintptr_t at = (uintptr_t)r->a.buf + i * PIECE;

	wr->sg_list[0] = (struct ibv_sge){at, 100, r->a.mr->lkey};
	wr->sg_list[1] = (struct ibv_sge){at + 100, PIECE - 100, r->a.mr->lkey};
	wr->num_sge = 2;
	wr->wr.rdma.remote_addr = (uintptr_t)r->b.buf + i * PIECE;
	wr->wr.rdma.rkey = r->b.mr->rkey;
	return wr;
}

static void add_send(struct chain *c, struct rig *r, uint64_t id)
{
	struct ibv_send_wr *wr = add(c, IBV_WR_SEND, id);

	wr->sg_list[0] = (struct ibv_sge){(uintptr_t)r->a.buf, 16, r->a.mr->lkey};
	wr->num_sge = 1;
	assert_int_equal(recv_at(&r->b, id, RIG_BUF - 16, 16), 0);
}

static void post(struct rig *r, struct chain *c)
{
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(r->a.qp, c->wr, &bad), 0);
}

static int setup_deep(void **state)
{
	rig_opts.init.cap.max_send_wr = 2 * N;
	rig_opts.init.cap.max_recv_wr = N;
	return rig_setup(state);
}

static void fill(struct rig *r)
{
	for (unsigned i = 0; i < N * PIECE; i++) {
		r->a.buf[i] = (uint8_t)(i / PIECE + i % 7 + 1);
		r->b.buf[i] = (uint8_t)~r->a.buf[i];
	}
}

static bool is_moved(const struct rig *r, unsigned i)
{
	return memcmp(r->a.buf + i * PIECE, r->b.buf + i * PIECE, PIECE) == 0;
}

static bool is_untouched(const struct rig *r, unsigned i)
{
	for (unsigned at = i * PIECE; at < (i + 1) * PIECE; at++)
		if ((r->a.buf[at] ^ r->b.buf[at]) != 0xff)
			return false;
	return true;
}

static void all_are_moved(struct rig *r, enum ibv_wr_opcode opcode)
{
	static struct chain c;

	c.n = 0;
	fill(r);
	for (unsigned i = 0; i < N; i++)
		add_rdma(&c, r, opcode, i);
	post(r, &c);
	for (unsigned i = 0; i < N; i++) {
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
		assert_true(is_moved(r, i));
	}
	expect_empty(r->a.scq);
}

static void writes(void **state)
{
	all_are_moved(*state, IBV_WR_RDMA_WRITE);
}

static void reads(void **state)
{
	all_are_moved(*state, IBV_WR_RDMA_READ);
}

/* Where piece i lies at b: some follow one another, upwards or downwards, most do not. */
static unsigned place_of(unsigned i)
{
	return i < 6 ? i : i < 12 ? 17 - i : 12 + (i - 12) * 11 % (N - 12);
}

static void all_are_moved_apart(struct rig *r, enum ibv_wr_opcode opcode)
{
	static struct chain c;

	c.n = 0;
	fill(r);
	for (unsigned i = 0; i < N; i++)
		add_rdma(&c, r, opcode, i)->wr.rdma.remote_addr = (uintptr_t)r->b.buf +
								  place_of(i) * PIECE;
	post(r, &c);
	for (unsigned i = 0; i < N; i++) {
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
		assert_memory_equal(r->a.buf + i * PIECE, r->b.buf + place_of(i) * PIECE, PIECE);
	}
}

static void writes_apart(void **state)
{
	all_are_moved_apart(*state, IBV_WR_RDMA_WRITE);
}

static void reads_apart(void **state)
{
	all_are_moved_apart(*state, IBV_WR_RDMA_READ);
}

/* As the responses of many commands: each SEND reports that the WRITE before it has arrived. */
static void writes_and_sends(void **state)
{
	static struct chain c;
	struct rig *r = *state;

	c.n = 0;
	fill(r);
	for (unsigned i = 0; i < N; i++) {
		add_rdma(&c, r, IBV_WR_RDMA_WRITE, i);
		add_send(&c, r, N + i);
	}
	post(r, &c);
	for (unsigned i = 0; i < N; i++) {
		expect_wc(r->b.rcq, N + i, IBV_WC_SUCCESS);
		assert_true(is_moved(r, i));
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
		expect_wc(r->a.scq, N + i, IBV_WC_SUCCESS);
	}
}

/* Long ones, empty ones, inline ones, and a READ of data that a WRITE before it brought. */
static void of_all_kinds(void **state)
{
	static struct chain c;
	struct rig *r = *state;
	struct ibv_send_wr *wr;

	c.n = 0;
	fill(r);
	add_rdma(&c, r, IBV_WR_RDMA_WRITE, 0);
	add_rdma(&c, r, IBV_WR_RDMA_WRITE, 1)->num_sge = 0;
	wr = add_rdma(&c, r, IBV_WR_RDMA_WRITE, 2);
	wr->sg_list[0].length = 40;
	wr->num_sge = 1;
	wr->send_flags |= IBV_SEND_INLINE;
	wr = add_rdma(&c, r, IBV_WR_RDMA_WRITE, 3);
	wr->sg_list[0].length = 3 * PIECE;
	wr->sg_list[1] = (struct ibv_sge){(uintptr_t)r->a.buf + 6 * PIECE, 34 * PIECE,
					  r->a.mr->lkey};
	add_rdma(&c, r, IBV_WR_RDMA_WRITE, 0)->wr.rdma.remote_addr = (uintptr_t)r->b.buf +
								     N * PIECE;
	wr = add_rdma(&c, r, IBV_WR_RDMA_READ, 0);
	wr->sg_list[0].addr = (uintptr_t)r->a.buf + (N + 1) * PIECE;
	wr->sg_list[1].addr = wr->sg_list[0].addr + 100;
	wr->wr.rdma.remote_addr = (uintptr_t)r->b.buf + N * PIECE;
	post(r, &c);
	for (unsigned i = 0; i < 4; i++)
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 0, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 0, IBV_WC_SUCCESS);
	assert_true(is_moved(r, 0));
	assert_true(is_untouched(r, 1));
	assert_memory_equal(r->a.buf + 2 * PIECE, r->b.buf + 2 * PIECE, 40);
	assert_memory_not_equal(r->a.buf + 2 * PIECE + 40, r->b.buf + 2 * PIECE + 40, 1);
	for (unsigned i = 3; i < N; i++)
		assert_true(is_moved(r, i));
	assert_memory_equal(r->a.buf, r->a.buf + (N + 1) * PIECE, PIECE);
}

/* The requests before it are done, it fails, those behind it are flushed without effect. */
static void expect_one_bad(struct rig *r, enum ibv_wc_status status)
{
	for (unsigned i = 0; i < N; i++)
		expect_wc(r->a.scq, i,
			  i < BAD    ? IBV_WC_SUCCESS
			  : i == BAD ? status
				     : IBV_WC_WR_FLUSH_ERR);
	for (unsigned i = 0; i < N; i++)
		assert_true(i < BAD ? is_moved(r, i) : is_untouched(r, i));
}

static void add_all(struct chain *c, struct rig *r, enum ibv_wr_opcode opcode)
{
	c->n = 0;
	fill(r);
	for (unsigned i = 0; i < N; i++)
		add_rdma(c, r, opcode, i);
}

static void write_with_bad_remote_key(void **state)
{
	static struct chain c;

	add_all(&c, *state, IBV_WR_RDMA_WRITE);
	c.wr[BAD].wr.rdma.rkey ^= 1;
	post(*state, &c);
	expect_one_bad(*state, IBV_WC_REM_ACCESS_ERR);
}

static void read_with_bad_remote_key(void **state)
{
	static struct chain c;

	add_all(&c, *state, IBV_WR_RDMA_READ);
	c.wr[BAD].wr.rdma.rkey ^= 1;
	post(*state, &c);
	expect_one_bad(*state, IBV_WC_REM_ACCESS_ERR);
}

static void write_with_bad_local_key(void **state)
{
	static struct chain c;

	add_all(&c, *state, IBV_WR_RDMA_WRITE);
	c.sge[BAD][1].lkey ^= 1;
	post(*state, &c);
	expect_one_bad(*state, IBV_WC_LOC_PROT_ERR);
}

/* No key is wrong, but a page is gone: the joint copy fails, and the requests are copied one by
 * one. */
static void write_to_a_page_that_is_gone(void **state)
{
	static struct chain c;
	struct rig *r = *state;
	void *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(r->pd, gone, 4096, rig_opts.access);

	assert_non_null(mr);
	rig_unmap(gone, 4096);
	add_all(&c, r, IBV_WR_RDMA_WRITE);
	c.wr[BAD].wr.rdma.remote_addr = (uintptr_t)gone;
	c.wr[BAD].wr.rdma.rkey = mr->rkey;
	post(r, &c);
	expect_one_bad(r, IBV_WC_REM_OP_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(gone, 4096);
}

/* Adjacent in memory, whose end is gone: the requests before the gap arrive. */
static void writes_up_to_a_page_that_is_gone(void **state)
{
	static struct chain c;
	struct rig *r = *state;
	uint8_t *here = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	uint8_t *gone = here + 4096, *first = gone - BAD * PIECE;
	struct ibv_mr *mr = ibv_reg_mr(r->pd, here, 8192, rig_opts.access);

	assert_non_null(mr);
	rig_unmap(gone, 4096);
	c.n = 0;
	fill(r);
	for (unsigned i = 0; i < BAD + 3; i++) {
		struct ibv_send_wr *wr = add_rdma(&c, r, IBV_WR_RDMA_WRITE, i);

		wr->wr.rdma.remote_addr = (uintptr_t)first + i * PIECE;
		wr->wr.rdma.rkey = mr->rkey;
	}
	post(r, &c);
	for (unsigned i = 0; i < BAD; i++)
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, BAD, IBV_WC_REM_OP_ERR);
	for (unsigned i = BAD + 1; i < BAD + 3; i++)
		expect_wc(r->a.scq, i, IBV_WC_WR_FLUSH_ERR);
	assert_memory_equal(first, r->a.buf, BAD * PIECE);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(here, 8192);
}

/* IBA 9.4.1.1: the SEND invalidates the key, and the WRITE behind it comes too late. */
static void write_behind_an_invalidation(void **state)
{
	static struct chain c;
	struct rig *r = *state;
	struct ibv_mw *mw = ibv_alloc_mw(r->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr bind = {.wr_id = 99,
				   .opcode = IBV_WR_BIND_MW,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad, *wr;

	assert_non_null(mw);
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = r->b.mr,
		.addr = (uintptr_t)r->b.buf,
		.length = N * PIECE,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	assert_int_equal(ibv_post_send(r->b.qp, &bind, &bad), 0);
	expect_wc(r->b.scq, 99, IBV_WC_SUCCESS);
	c.n = 0;
	fill(r);
	add_rdma(&c, r, IBV_WR_RDMA_WRITE, 0)->wr.rdma.rkey = bind.bind_mw.rkey;
	add_send(&c, r, 1);
	add_rdma(&c, r, IBV_WR_RDMA_WRITE, 2)->wr.rdma.rkey = bind.bind_mw.rkey;
	add_send(&c, r, 3);
	wr = &c.wr[c.n - 1];
	wr->opcode = IBV_WR_SEND_WITH_INV;
	wr->invalidate_rkey = bind.bind_mw.rkey;
	add_rdma(&c, r, IBV_WR_RDMA_WRITE, 4)->wr.rdma.rkey = bind.bind_mw.rkey;
	post(r, &c);
	for (unsigned i = 0; i < 4; i++)
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
	expect_wc(r->a.scq, 4, IBV_WC_REM_ACCESS_ERR);
	assert_true(is_moved(r, 0) && is_moved(r, 2));
	assert_true(is_untouched(r, 4));
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup_deep, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(writes),
		T(reads),
		T(writes_apart),
		T(reads_apart),
		T(writes_and_sends),
		T(of_all_kinds),
		T(write_with_bad_remote_key),
		T(read_with_bad_remote_key),
		T(write_with_bad_local_key),
		T(write_to_a_page_that_is_gone),
		T(writes_up_to_a_page_that_is_gone),
		T(write_behind_an_invalidation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
