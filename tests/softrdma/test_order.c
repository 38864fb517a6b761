/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Order, atomicity, and what the data path must not do. Sources: IBA 10.8.3.1
 * (completions in posting order), 9.5 and table 76 (order of execution), 9.4.4 (READs in flight),
 * 9.4.5 (atomicity).
 */
#include "rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A sanitizer's allocator would conflict with the test's own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#	define COUNTS_ALLOCATIONS
#endif

enum {
	N_MIXED = 12,
	N_READS = 8,
	N_ADDERS = 3,
	N_ADDS = 5000
};

/* IBA 10.8.3.1: whatever the operations are, they complete in the order of posting. */
static void completions_in_posting_order(void **state)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						 IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct rig *r = *state;
	struct ibv_sge sge = {(uintptr_t)r->a.buf, 8, r->a.mr->lkey};
	struct ibv_send_wr wr[N_MIXED] = {0}, *bad;

	for (unsigned i = 0; i < N_MIXED; i++) {
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = ops[i % n_of(ops)],
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)r->b.buf, r->b.mr->rkey},
			.next = i + 1 < N_MIXED ? &wr[i + 1] : NULL,
		};
		if (wr[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr[i].wr.atomic.remote_addr = (uintptr_t)r->b.buf;
			wr[i].wr.atomic.compare_add = 1;
			wr[i].wr.atomic.rkey = r->b.mr->rkey;
		}
		if (wr[i].opcode == IBV_WR_SEND)
			assert_int_equal(recv_at(&r->b, i, 4096, 64), 0);
	}
	assert_int_equal(ibv_post_send(r->a.qp, wr, &bad), 0);
	for (uint64_t i = 0; i < N_MIXED; i++)
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
	for (uint64_t i = 1; i < N_MIXED; i += n_of(ops)) /* and so at the receiver */
		expect_wc(r->b.rcq, i, IBV_WC_SUCCESS);
	expect_empty(r->a.scq);
}

/* IBA o9-20: a WRITE's bytes may be relied on once the SEND behind it has completed. */
static void write_is_there_when_the_send_is(void **state)
{
	struct rig *r = *state;

	for (uint32_t len = 1; len <= 32768; len *= 8) {
		memset(r->a.buf, (int)(len % 251 + 1), len);
		memset(r->b.buf, 0, len);
		assert_int_equal(recv_at(&r->b, len, 40960, 64), 0);
		assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, 1, 0, len, (uintptr_t)r->b.buf,
				      r->b.mr->rkey, 0),
				 0);
		assert_int_equal(send_from(&r->a, 2, 0, 1, IBV_SEND_SIGNALED), 0);
		expect_wc(r->b.rcq, len, IBV_WC_SUCCESS);
		assert_memory_equal(r->a.buf, r->b.buf, len);
		expect_wc(r->a.scq, 2, IBV_WC_SUCCESS);
	}
}

static int setup_depth_1(void **state)
{
	rig_opts.rd_atomic = 1;
	return rig_setup(state);
}

/* IBA 9.4.4, ibv_modify_qp(3): beyond max_rd_atomic they wait for each other; none fails. */
static void reads_beyond_the_depth_wait(void **state)
{
	struct rig *r = *state;
	struct ibv_sge sge[N_READS];
	struct ibv_send_wr wr[N_READS], *bad;

	for (unsigned i = 0; i < N_READS; i++) {
		r->b.buf[i * 64] = (uint8_t)(i + 1);
		sge[i] = (struct ibv_sge){(uintptr_t)r->a.buf + i * 64ULL, 64, r->a.mr->lkey};
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.sg_list = &sge[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_READ,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = {(uintptr_t)r->b.buf + i * 64ULL, r->b.mr->rkey},
			.next = i + 1 < N_READS ? &wr[i + 1] : NULL,
		};
	}
	assert_int_equal(ibv_post_send(r->a.qp, wr, &bad), 0);
	for (uint64_t i = 0; i < N_READS; i++) {
		expect_wc(r->a.scq, i, IBV_WC_SUCCESS);
		assert_int_equal(r->a.buf[i * 64], i + 1);
	}
}

/* ---- atomics of several queue pairs ------------------------------------------- */

struct adder {
	struct rig *r;
	struct end from, to;
	pthread_barrier_t *start; /* all at once */
	unsigned failures;
	uint64_t before[N_ADDS]; /* what each found there */
};

static void adder_up(struct rig *r, struct adder *a)
{
	struct ibv_cq *cq = ibv_create_cq(r->ctx, 64, NULL, NULL, 0);

	assert_non_null(cq);
	a->r = r;
	a->from = a->to = (struct end){.scq = cq, .rcq = cq};
	a->from.mr = ibv_reg_mr(r->pd, a->before, sizeof(a->before), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(a->from.mr);
	a->from.qp = rig_new_qp(r, &a->from, NULL);
	a->to.qp = rig_new_qp(r, &a->to, NULL);
	assert_int_equal(to_init(a->from.qp), 0);
	assert_int_equal(to_init(a->to.qp), 0);
	assert_int_equal(to_rtr(a->from.qp, a->to.qp->qp_num), 0);
	assert_int_equal(to_rtr(a->to.qp, a->from.qp->qp_num), 0);
	assert_int_equal(to_rts(a->from.qp), 0);
}

static void adder_down(struct adder *a)
{
	assert_int_equal(ibv_destroy_qp(a->from.qp), 0);
	assert_int_equal(ibv_destroy_qp(a->to.qp), 0);
	assert_int_equal(ibv_dereg_mr(a->from.mr), 0);
	assert_int_equal(ibv_destroy_cq(a->from.scq), 0);
}

static void *add(void *arg)
{
	struct adder *a = arg;
	struct rig *r = a->r;
	struct ibv_wc wc;

	pthread_barrier_wait(a->start);
	for (unsigned i = 0; i < N_ADDS; i++) {
		struct ibv_sge sge = {(uintptr_t)&a->before[i], 8, a->from.mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.atomic = {.remote_addr = (uintptr_t)r->b.buf,
						       .compare_add = 1,
						       .rkey = r->b.mr->rkey}},
				   *bad;

		if (ibv_post_send(a->from.qp, &wr, &bad)) {
			a->failures++;
			return NULL;
		}
		while (!ibv_poll_cq(a->from.scq, 1, &wc))
			;
		a->failures += wc.status != IBV_WC_SUCCESS;
	}
	return NULL;
}

/* IBV_ATOMIC_HCA, IBA 9.4.5: no two of one device's atomics find the same value. */
static void atomics_are_atomic_between_queue_pairs(void **state)
{
	static struct adder adders[N_ADDERS];
	static uint8_t seen[N_ADDERS * N_ADDS];
	struct rig *r = *state;
	pthread_barrier_t start;
	pthread_t t[N_ADDERS];

	pthread_barrier_init(&start, NULL, N_ADDERS);
	memset(seen, 0, sizeof(seen));
	for (unsigned i = 0; i < N_ADDERS; i++) {
		adder_up(r, &adders[i]);
		adders[i].start = &start;
		adders[i].failures = 0;
	}
	for (unsigned i = 0; i < N_ADDERS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, add, &adders[i]), 0);
	for (unsigned i = 0; i < N_ADDERS; i++)
		pthread_join(t[i], NULL);
	pthread_barrier_destroy(&start);
	assert_int_equal(*(uint64_t *)(void *)r->b.buf, N_ADDERS * N_ADDS);
	for (unsigned i = 0; i < N_ADDERS; i++) {
		assert_int_equal(adders[i].failures, 0);
		for (unsigned j = 0; j < N_ADDS; j++) {
			assert_in_range(adders[i].before[j], 0, sizeof(seen) - 1);
			assert_int_equal(seen[adders[i].before[j]]++, 0);
		}
		adder_down(&adders[i]);
	}
}

/* ---- no allocation on the data path ------------------------------------------- */

#ifdef COUNTS_ALLOCATIONS
static atomic_uint n_allocations;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

/* The dynamic linker finds it before the C library's, for the whole process. */
void *malloc(size_t n)
{
	atomic_fetch_add(&n_allocations, 1);
	return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	atomic_fetch_add(&n_allocations, 1);
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	atomic_fetch_add(&n_allocations, 1);
	return __libc_realloc(p, n);
}

static void exchange(struct rig *r)
{
	assert_int_equal(recv_at(&r->b, 1, 0, 4096), 0);
	assert_int_equal(
		rdma(&r->a, IBV_WR_RDMA_READ, 2, 0, 4096, (uintptr_t)r->b.buf, r->b.mr->rkey, 0),
		0);
	assert_int_equal(
		rdma(&r->a, IBV_WR_RDMA_WRITE, 3, 0, 4096, (uintptr_t)r->b.buf, r->b.mr->rkey, 0),
		0);
	assert_int_equal(ibv_req_notify_cq(r->b.rcq, 0), 0);
	assert_int_equal(send_from(&r->a, 4, 0, 4096, IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.scq, 4, IBV_WC_SUCCESS);
	expect_wc(r->b.rcq, 1, IBV_WC_SUCCESS);
}

/* A device's queues are made once; a driver that allocates here may fail here. */
static void data_path_allocates_nothing(void **state)
{
	struct rig *r = *state;
	unsigned before;
	void *p;

	before = atomic_load(&n_allocations);
	p = ibv_alloc_pd(r->ctx); /* shows that the provider's calls count, too */
	assert_int_equal(ibv_dealloc_pd(p), 0);
	assert_int_not_equal(atomic_load(&n_allocations), before);
	exchange(r);
	before = atomic_load(&n_allocations);
	for (unsigned i = 0; i < 100; i++)
		exchange(r);
	assert_int_equal(atomic_load(&n_allocations), before);
}
#endif

#define TS(f, s) cmocka_unit_test_setup_teardown(f, s, rig_teardown)
#define T(f)	 TS(f, rig_setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(completions_in_posting_order),
		T(write_is_there_when_the_send_is),
		TS(reads_beyond_the_depth_wait, setup_depth_1),
		T(atomics_are_atomic_between_queue_pairs),
#ifdef COUNTS_ALLOCATIONS
		T(data_path_allocates_nothing),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
