/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thread domains and parent domains. Sources: ibv_alloc_td(3), ibv_alloc_parent_domain(3)
 * (a parent domain is used as its protection domain, the allocators and their context),
 * ibv_alloc_pd(3) (EBUSY while something is inside), ibv_create_cq_ex(3) (parent_domain).
 */
#include "rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The requests to the program's allocator. */
struct allocator {
	unsigned allocated, freed;
	void *last;
	size_t size, alignment;
	uint64_t type;
	enum {
		GIVES,
		GIVES_NOTHING,
		LEAVES_IT
	} answer;
};

static void *allocate(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		      uint64_t type)
{
	struct allocator *a = context;

	a->allocated++;
	a->size = size;
	a->alignment = alignment;
	a->type = type;
	if (a->answer == LEAVES_IT)
		return IBV_ALLOCATOR_USE_DEFAULT;
	a->last = a->answer == GIVES ? aligned_alloc(alignment, size) : NULL;
	return a->last;
}

static void release(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
	struct allocator *a = context;

	assert_ptr_equal(at, a->last);
	assert_int_equal(type, a->type);
	a->freed++;
	free(at);
}

static struct ibv_pd *new_parent(struct rig *r, struct ibv_td *td, struct allocator *a)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = r->pd,
		.td = td,
		.comp_mask = a ? IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
					     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
			       : 0,
		.alloc = allocate,
		.free = release,
		.pd_context = a,
	};

	return ibv_alloc_parent_domain(r->ctx, &attr);
}

static struct ibv_qp *new_qp_in(struct rig *r, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = rig_opts.init;

	init.send_cq = r->a.scq;
	init.recv_cq = r->a.rcq;
	return ibv_create_qp(pd, &init);
}

/* ibv_alloc_parent_domain(3): used like the protection domain, so keys of both serve its queues. */
static void keys_of_both_domains_serve(void **state)
{
	struct rig *r = *state;
	struct ibv_pd *parent = new_parent(r, NULL, NULL);
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct end a = r->a, b = r->b;

	assert_non_null(parent);
	mr = ibv_reg_mr(parent, r->a.buf, RIG_BUF, (int)rig_opts.access);
	assert_non_null(mr);
	qp = new_qp_in(r, parent);
	assert_non_null(qp);
	a.qp = qp;
	assert_int_equal(to_state(r->b.qp, IBV_QPS_RESET), 0);
	assert_int_equal(to_init(qp) | to_init(r->b.qp), 0);
	assert_int_equal(to_rtr(qp, r->b.qp->qp_num) | to_rtr(r->b.qp, qp->qp_num), 0);
	assert_int_equal(to_rts(qp) | to_rts(r->b.qp), 0);
	assert_int_equal(recv_at(&b, 1, 0, 64), 0);
	assert_int_equal(send_from(&a, 2, 0, 64, IBV_SEND_SIGNALED), 0); /* the key of r->pd */
	expect_wc(a.scq, 2, IBV_WC_SUCCESS);
	expect_wc(b.rcq, 1, IBV_WC_SUCCESS);
	assert_int_equal(rdma(&b, IBV_WR_RDMA_WRITE, 3, 0, 64, (uintptr_t)r->a.buf, mr->rkey,
			      IBV_SEND_SIGNALED),
			 0);
	expect_wc(b.scq, 3, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

/* ibv_alloc_pd(3), ibv_dealloc_td(3): EBUSY while an object is inside. */
static void busy_while_something_is_inside(void **state)
{
	struct rig *r = *state;
	struct ibv_td_init_attr none = {0};
	struct ibv_td *td = ibv_alloc_td(r->ctx, &none);
	struct ibv_pd *below = ibv_alloc_pd(r->ctx), *own = r->pd, *parent;
	struct ibv_qp *qp;

	assert_non_null(td);
	assert_non_null(below);
	r->pd = below;
	parent = new_parent(r, td, NULL);
	r->pd = own;
	assert_non_null(parent);
	qp = new_qp_in(r, parent);
	assert_non_null(qp);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_dealloc_pd(below), EBUSY);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dealloc_pd(below), EBUSY);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(below), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
}

/* ibv_alloc_parent_domain(3): what alloc returned goes to free; "use default" and NULL. */
static void the_programs_allocator_is_asked(void **state)
{
	struct rig *r = *state;
	struct allocator a = {.answer = GIVES};
	struct ibv_pd *parent = new_parent(r, NULL, &a);
	struct ibv_qp *qp = new_qp_in(r, parent);

	assert_non_null(qp);
	assert_int_equal(a.allocated, 1);
	assert_in_range(a.size, RIG_DEPTH * 64, 1 << 20);
	assert_int_equal(a.size % a.alignment, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(a.freed, 1);

	a.answer = LEAVES_IT;
	qp = new_qp_in(r, parent);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(a.allocated, 2);
	assert_int_equal(a.freed, 1);

	a.answer = GIVES_NOTHING;
	errno = 0;
	assert_null(new_qp_in(r, parent));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(a.freed, 1);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

/* ibv_create_cq_ex(3): parent_domain is a parent domain; it is busy until the queue is gone. */
static void completion_queue_in_a_parent_domain(void **state)
{
	struct rig *r = *state;
	struct ibv_pd *parent = new_parent(r, NULL, NULL);
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = r->pd};
	struct ibv_cq_ex *cq;

	errno = 0;
	assert_null(ibv_create_cq_ex(r->ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr.parent_domain = parent;
	cq = ibv_create_cq_ex(r->ctx, &attr);
	assert_non_null(cq);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void expect_refused(struct rig *r, struct ibv_parent_domain_init_attr attr)
{
	errno = 0;
	assert_null(ibv_alloc_parent_domain(r->ctx, &attr));
	assert_int_equal(errno, EINVAL);
}

/* ibv_alloc_parent_domain(3): pd "can't be NULL"; unknown bits; half an allocator. */
static void attributes_are_checked(void **state)
{
	struct rig *r = *state;
	struct ibv_td_init_attr td = {.comp_mask = 1};

	expect_refused(r, (struct ibv_parent_domain_init_attr){0});
	expect_refused(r, (struct ibv_parent_domain_init_attr){.pd = r->pd, .comp_mask = 1 << 9});
	expect_refused(r, (struct ibv_parent_domain_init_attr){
				  .pd = r->pd,
				  .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
				  .alloc = allocate});
	errno = 0;
	assert_null(ibv_alloc_td(r->ctx, &td));
	assert_int_equal(errno, EINVAL);
}

#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(keys_of_both_domains_serve),	    T(busy_while_something_is_inside),
		T(the_programs_allocator_is_asked), T(completion_queue_in_a_parent_domain),
		T(attributes_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
