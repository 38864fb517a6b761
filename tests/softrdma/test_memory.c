/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions and windows. Sources: IBA 10.6.3.1 (access rights), ibv_reg_mr(3),
 * ibv_bind_mw(3), ibv_alloc_mw(3), IBA 10.6.7 (windows), RLIMIT_MEMLOCK as in the
 * kernel's ib_umem_get().
 */
#include "rig.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static uint8_t *map(size_t len, int prot)
{
	uint8_t *p = mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* IBA 10.6.3.1 and ibv_reg_mr(3): no remote write without the local one. */
static void remote_write_needs_local_write(void **state)
{
	struct rig *r = *state;

	assert_null(ibv_reg_mr(r->pd, r->a.buf, 64, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(r->pd, r->a.buf, 64, IBV_ACCESS_REMOTE_ATOMIC));
	assert_int_equal(errno, EINVAL);
}

/* IBA 10.6.3.1: a READ writes to the requester's memory, and its region must allow that. */
static int setup_no_local_write(void **state)
{
	rig_opts.access = IBV_ACCESS_REMOTE_READ;
	return rig_setup(state);
}

static void read_sink_needs_local_write(void **state)
{
	struct rig *r = *state;

	assert_int_equal(
		rdma(&r->a, IBV_WR_RDMA_READ, 1, 0, 64, (uintptr_t)r->b.buf, r->b.mr->rkey, 0), 0);
	expect_wc(r->a.scq, 1, IBV_WC_LOC_PROT_ERR);
}

/* As ib_umem_get() pins: it fails on what is not mapped, or not writable if that is asked for. */
static void registering_pins(void **state)
{
	struct rig *r = *state;
	uint8_t *p = map(3 * 4096, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr;

	rig_unmap(p + 4096, 4096);
	assert_null(ibv_reg_mr(r->pd, p, 3 * 4096, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	mprotect(p, 4096, PROT_READ);
	assert_null(ibv_reg_mr(r->pd, p, 4096, IBV_ACCESS_LOCAL_WRITE));
	mr = ibv_reg_mr(r->pd, p, 4096, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(p, 3 * 4096);
}

/* ibv_reg_mr(3): those in IBV_ACCESS_OPTIONAL_RANGE may be ignored, others may not. */
static void unknown_optional_rights_are_ignored(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *mr = ibv_reg_mr(r->pd, r->a.buf, 64,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null(ibv_reg_mr(r->pd, r->a.buf, 64, IBV_ACCESS_ON_DEMAND));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* ibv_reg_mr(3): work requests use the address given at registration. */
static void region_at_another_address(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *mr = ibv_reg_mr_iova(r->pd, r->b.buf, 4096, 0x1000, rig_opts.access);

	memset(r->a.buf, 'z', 64);
	assert_int_equal(
		rdma(&r->a, IBV_WR_RDMA_WRITE, 1, 0, 64, 0x1000 + 100, mr->rkey, IBV_SEND_SIGNALED),
		0);
	expect_wc(r->a.scq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(r->b.buf + 100, r->a.buf, 64);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* ibv_dereg_mr(3): a key of the past is none, even if its place is taken again. */
static void keys_are_not_reused_soon(void **state)
{
	struct rig *r = *state;
	uint32_t keys[300];

	for (unsigned i = 0; i < n_of(keys); i++) {
		struct ibv_mr *mr = ibv_reg_mr(r->pd, r->a.buf, 64, 0);

		keys[i] = mr->rkey;
		assert_int_not_equal(mr->rkey, 0);
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(keys[i], keys[j]);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
}

/* ibv_rereg_mr(3): the same region with other memory and other rights. */
static void reregister(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *mr = ibv_reg_mr(r->pd, r->b.buf, 64, IBV_ACCESS_LOCAL_WRITE);

	assert_int_equal(ibv_rereg_mr(mr,
				      IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION,
				      NULL, r->b.buf, RIG_BUF, (int)rig_opts.access),
			 0);
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, 1, 0, 64, (uintptr_t)r->b.buf + 1000,
			      mr->rkey, IBV_SEND_SIGNALED),
			 0);
	expect_wc(r->a.scq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* With SOFTRDMA_MEMLOCK_STRICT more than may be locked is refused, as with a device. */
static void memlock_limit(void **state)
{
	struct rig *r = *state;
	struct rlimit old, low;
	uint8_t *p = map(1 << 20, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr;

	getrlimit(RLIMIT_MEMLOCK, &old);
	low = old;
	low.rlim_cur = 512 << 10;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
	setenv("SOFTRDMA_MEMLOCK_STRICT", "1", 1);
	assert_null(ibv_reg_mr(r->pd, p, 1 << 20, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, ENOMEM);
	mr = ibv_reg_mr(r->pd, p, 256 << 10, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_null(ibv_reg_mr(r->pd, p, 256 << 10, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(r->pd, p, 256 << 10, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	unsetenv("SOFTRDMA_MEMLOCK_STRICT");
	setrlimit(RLIMIT_MEMLOCK, &old);
	munmap(p, 1 << 20);
}

/* Nothing is locked, so the limit does not bind: not even without CAP_IPC_LOCK. */
static void no_memlock_limit(void **state)
{
	struct rig *r = *state;
	struct rlimit old, low;
	uint8_t *p = map(1 << 20, PROT_READ | PROT_WRITE);
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct was[2], without[2];
	struct ibv_mr *mr;

	assert_int_equal(syscall(SYS_capget, &h, was), 0);
	memcpy(without, was, sizeof(was));
	without[0].effective &= ~(1u << CAP_IPC_LOCK);
	assert_int_equal(syscall(SYS_capset, &h, without), 0);
	getrlimit(RLIMIT_MEMLOCK, &old);
	low = old;
	low.rlim_cur = 512 << 10;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
	mr = ibv_reg_mr(r->pd, p, 1 << 20, IBV_ACCESS_LOCAL_WRITE);
	setrlimit(RLIMIT_MEMLOCK, &old);
	assert_int_equal(syscall(SYS_capset, &h, was), 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(p, 1 << 20);
}

enum {
	FEW_PAGES = 16384, /* the segment is eight times as large */
	MAY_NOT_LOCK = 77,
	FILLED,
	FAILED,
};

/* Resident pages. */
static long resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long all = 0, n = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld %ld", &all, &n), 2);
	fclose(f);
	return n;
}

/* In a process of its own, whose segment is small, so that a failure does not fill the machine. Its
 * end is how it went: cmocka does not follow a fork. */
static int lock_all_with_a_device(void)
{
	struct rlimit room = {.rlim_cur = 4UL << 30, .rlim_max = RLIM_INFINITY};
	struct rig r = {0};
	long before;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return MAY_NOT_LOCK; /* they need more address space, and lock nothing */
#endif
	setrlimit(RLIMIT_AS, &room);
	rig_up(&r);
	before = resident();
	if (mlockall(MCL_CURRENT | MCL_FUTURE) < 0)
		return MAY_NOT_LOCK;
	if (resident() - before > FEW_PAGES)
		return FILLED;
	if (rdma(&r.a, IBV_WR_RDMA_WRITE, 1, 0, 64, (uintptr_t)r.b.buf, r.b.mr->rkey,
		 IBV_SEND_SIGNALED) ||
	    next_wc(r.a.scq).status != IBV_WC_SUCCESS)
		return FAILED;
	return 0;
}

/* mlockall(2) of a program that has opened the device, as rblk does for /dev/nbdN: the sparse
 * memory that processes share is not filled. */
static void mlockall_fills_nothing(void **state)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(lock_all_with_a_device());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == MAY_NOT_LOCK)
		print_message("# nothing is tested: this user may not lock so much\n");
	else
		assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- windows ------------------------------------------------------------------ */

static int bind2(struct rig *r, struct ibv_mw *mw, uint32_t rkey, size_t off, size_t len)
{
	struct ibv_send_wr wr = {.wr_id = 50,
				 .opcode = IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED,
				 .bind_mw = {.mw = mw,
					     .rkey = rkey,
					     .bind_info = {.mr = r->b.mr,
							   .addr = (uintptr_t)r->b.buf + off,
							   .length = len,
							   .mw_access_flags =
								   IBV_ACCESS_REMOTE_WRITE}}},
			   *bad;

	return ibv_post_send(r->b.qp, &wr, &bad);
}

static void write_by_window(struct rig *r, uint64_t id, size_t off, uint32_t rkey)
{
	assert_int_equal(rdma(&r->a, IBV_WR_RDMA_WRITE, id, 0, 64, (uintptr_t)r->b.buf + off, rkey,
			      IBV_SEND_SIGNALED),
			 0);
}

/* IBA 10.6.7.2: bound by a work request, for one QP, to the byte; EBUSY for its region. */
static void type_2_window(void **state)
{
	struct rig *r = *state;
	struct ibv_mw *mw = ibv_alloc_mw(r->pd, IBV_MW_TYPE_2);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr inv = {.wr_id = 51,
				  .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = rkey},
			   *bad;

	assert_int_equal(bind2(r, mw, rkey, 1000, 1000), 0);
	expect_wc(r->b.scq, 50, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(r->b.mr), EBUSY); /* it has a window */
	write_by_window(r, 1, 1936, rkey);
	expect_wc(r->a.scq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_post_send(r->b.qp, &inv, &bad), 0);
	expect_wc(r->b.scq, 51, IBV_WC_SUCCESS);
	rkey = ibv_inc_rkey(rkey);
	assert_int_equal(bind2(r, mw, rkey, 1000, 1000), 0);
	expect_wc(r->b.scq, 50, IBV_WC_SUCCESS);
	write_by_window(r, 2, 1937, rkey); /* one byte too far */
	expect_wc(r->a.scq, 2, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* Connected as the rig's own queue pairs are; both ends are in the rig's domain. */
static void another_pair(struct rig *r, struct end *a, struct end *b)
{
	*a = r->a;
	*b = r->b;
	a->qp = rig_new_qp(r, a, NULL);
	b->qp = rig_new_qp(r, b, NULL);
	assert_int_equal(to_init(a->qp), 0);
	assert_int_equal(to_init(b->qp), 0);
	assert_int_equal(to_rtr(a->qp, b->qp->qp_num), 0);
	assert_int_equal(to_rtr(b->qp, a->qp->qp_num), 0);
	assert_int_equal(to_rts(a->qp), 0);
	assert_int_equal(to_rts(b->qp), 0);
}

static int use_key(struct rig *r, struct end *by, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = opcode, .invalidate_rkey = rkey}, *bad;

	if (opcode == IBV_WR_RDMA_WRITE)
		return rdma(by, opcode, 1, 0, 64, (uintptr_t)r->b.buf, rkey, 0);
	return ibv_post_send(by->qp, &wr, &bad);
}

/* IBA 10.6.7.2: another queue pair of the same domain neither reaches nor unbinds the window, which
 * still serves its own one. */
static void type_2_window_is_for_one_queue_pair(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND_WITH_INV,
						     IBV_WR_LOCAL_INV};
	struct rig *r = *state;
	struct ibv_mw *mw = ibv_alloc_mw(r->pd, IBV_MW_TYPE_2);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);

	assert_int_equal(bind2(r, mw, rkey, 0, 1000), 0);
	expect_wc(r->b.scq, 50, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < n_of(opcodes); i++) {
		bool is_local = opcodes[i] == IBV_WR_LOCAL_INV;
		struct end a, b, *by = is_local ? &b : &a;

		another_pair(r, &a, &b);
		assert_int_equal(recv_at(&b, 2, 0, 64), 0);
		assert_int_equal(use_key(r, by, opcodes[i], rkey), 0);
		expect_wc(by->scq, 1, is_local ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(ibv_destroy_qp(a.qp), 0);
		assert_int_equal(ibv_destroy_qp(b.qp), 0);
		write_by_window(r, 3, 0, rkey);
		expect_wc(r->a.scq, 3, IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* IBA 10.6.7.2.1: in the free state again, so that its region can be deregistered. */
static void invalidated_window_is_no_regions(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *own = r->b.mr,
		      *mr = ibv_reg_mr(r->pd, r->b.buf, 4096,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw[2] = {ibv_alloc_mw(r->pd, IBV_MW_TYPE_2),
				ibv_alloc_mw(r->pd, IBV_MW_TYPE_2)};
	struct ibv_send_wr inv = {.wr_id = 51,
				  .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	assert_non_null(mr);
	r->b.mr = mr;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(bind2(r, mw[i], ibv_inc_rkey(mw[i]->rkey), 0, 1000), 0);
		expect_wc(r->b.scq, 50, IBV_WC_SUCCESS);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(ibv_dereg_mr(mr), EBUSY);
		inv.invalidate_rkey = ibv_inc_rkey(mw[i]->rkey);
		assert_int_equal(ibv_post_send(r->b.qp, &inv, &bad), 0);
		expect_wc(r->b.scq, 51, IBV_WC_SUCCESS);
	}
	r->b.mr = own;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ibv_dealloc_mw(mw[i]), 0);
}

/* IBA 10.6.7.2.3: must be unbound before it is bound again. */
static void bound_window_cannot_be_bound(void **state)
{
	struct rig *r = *state;
	struct ibv_mw *mw = ibv_alloc_mw(r->pd, IBV_MW_TYPE_2);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);

	assert_int_equal(bind2(r, mw, rkey, 0, 1000), 0);
	expect_wc(r->b.scq, 50, IBV_WC_SUCCESS);
	assert_int_equal(bind2(r, mw, ibv_inc_rkey(rkey), 0, 1000), 0);
	expect_wc(r->b.scq, 50, IBV_WC_MW_BIND_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* IBA 9.4.1.1: SEND with invalidate unbinds the receiver's window and says which. */
static void send_with_invalidate(void **state)
{
	struct rig *r = *state;
	struct ibv_mw *mw = ibv_alloc_mw(r->pd, IBV_MW_TYPE_2);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr wr = {.wr_id = 3,
				 .opcode = IBV_WR_SEND_WITH_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = rkey},
			   *bad;
	struct ibv_wc wc;

	assert_int_equal(bind2(r, mw, rkey, 0, 1000), 0);
	expect_wc(r->b.scq, 50, IBV_WC_SUCCESS);
	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(ibv_post_send(r->a.qp, &wr, &bad), 0);
	expect_wc(r->a.scq, 3, IBV_WC_SUCCESS);
	wc = next_wc(r->b.rcq);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, rkey);
	write_by_window(r, 4, 0, rkey);
	expect_wc(r->a.scq, 4, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* ibv_post_send(3): windows can be invalidated; those of ibv_reg_mr(3) are not for it. */
static void regions_cannot_be_invalidated(void **state)
{
	struct rig *r = *state;
	struct ibv_send_wr wr = {.wr_id = 3,
				 .opcode = IBV_WR_SEND_WITH_INV,
				 .invalidate_rkey = r->b.mr->rkey},
			   *bad;

	assert_int_equal(recv_at(&r->b, 1, 0, 64), 0);
	assert_int_equal(ibv_post_send(r->a.qp, &wr, &bad), 0);
	expect_wc(r->a.scq, 3, IBV_WC_REM_ACCESS_ERR);
	expect_wc(r->b.rcq, 1, IBV_WC_REM_INV_REQ_ERR);
}

/* The same for one's own work request; the status is that of rxe's do_local_ops. */
static void regions_cannot_be_invalidated_locally(void **state)
{
	struct rig *r = *state;
	struct ibv_send_wr wr = {.wr_id = 3,
				 .opcode = IBV_WR_LOCAL_INV,
				 .invalidate_rkey = r->a.mr->rkey},
			   *bad;

	assert_int_equal(ibv_post_send(r->a.qp, &wr, &bad), 0);
	expect_wc(r->a.scq, 3, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(state_of(r->a.qp), IBV_QPS_ERR);
	assert_int_equal(state_of(r->b.qp), IBV_QPS_RTS);
	assert_int_equal(
		rdma(&r->b, IBV_WR_RDMA_READ, 4, 0, 64, (uintptr_t)r->a.buf, r->a.mr->rkey, 0), 0);
	expect_wc(r->b.scq, 4, IBV_WC_RETRY_EXC_ERR); /* no peer is there */
}

/* ibv_bind_mw(3): bound by a call, each time with another key, and again while bound. */
static void type_1_window(void **state)
{
	struct rig *r = *state;
	struct ibv_mw *mw = ibv_alloc_mw(r->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.wr_id = 60,
				   .send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {.mr = r->b.mr,
						 .addr = (uintptr_t)r->b.buf,
						 .length = 4096,
						 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
	uint32_t first;

	assert_int_equal(ibv_bind_mw(r->b.qp, mw, &bind), 0);
	expect_wc(r->b.scq, 60, IBV_WC_SUCCESS);
	first = mw->rkey;
	write_by_window(r, 1, 0, first);
	expect_wc(r->a.scq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_bind_mw(r->b.qp, mw, &bind), 0); /* replaces the binding */
	expect_wc(r->b.scq, 60, IBV_WC_SUCCESS);
	assert_int_not_equal(first, mw->rkey);
	write_by_window(r, 2, 0, first);
	expect_wc(r->a.scq, 2, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

#define TS(f, s) cmocka_unit_test_setup_teardown(f, s, rig_teardown)
#define T(f)	 TS(f, rig_setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(remote_write_needs_local_write),
		TS(read_sink_needs_local_write, setup_no_local_write),
		T(registering_pins),
		T(unknown_optional_rights_are_ignored),
		T(region_at_another_address),
		T(keys_are_not_reused_soon),
		T(reregister),
		T(memlock_limit),
		T(no_memlock_limit),
		cmocka_unit_test(mlockall_fills_nothing),
		T(type_2_window),
		T(type_2_window_is_for_one_queue_pair),
		T(invalidated_window_is_no_regions),
		T(bound_window_cannot_be_bound),
		T(send_with_invalidate),
		T(regions_cannot_be_invalidated),
		T(regions_cannot_be_invalidated_locally),
		T(type_1_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
