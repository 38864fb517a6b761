/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory in sealed memfds, which peers map and copy without a system call
 * (softrdma/fabric/share.h). Its rules are those of any memory: IBA 10.6.2 (keys), 10.6.7
 * (windows), ibv_dereg_mr(3), ibv_fork_init(3). Where it cannot be mapped, it is copied as any
 * memory.
 *
 * Whether a copy needs system calls is found out by a thread that may not make them.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	LEN = 4 * PAGE,
	MANY = 1100, /* memfds: more than a process can share */
};

/* ---- a thread without process_vm_readv and process_vm_writev ---- */

struct attempt {
	struct rig *r;
	enum ibv_wr_opcode op;
	uint64_t remote;
	uint32_t rkey;
	int status;
};

static void forbid(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {n_of(code), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		abort();
}

static void *run_attempt(void *arg)
{
	struct attempt *t = arg;
	time_t end = time(NULL) + RIG_PATIENCE_MS / 1000;
	struct ibv_wc wc;

	forbid();
	t->status = rdma(&t->r->a, t->op, 1, 0, LEN, t->remote, t->rkey, IBV_SEND_SIGNALED);
	while (!t->status && time(NULL) < end)
		if (ibv_poll_cq(t->r->a.scq, 1, &wc) == 1) {
			t->status = wc.status;
			return NULL;
		}
	t->status = -1;
	return NULL;
}

/* The status of one transfer of LEN bytes from or to the beginning of a's buffer. */
static int without_system_call(struct rig *r, enum ibv_wr_opcode op, const void *remote,
			       uint32_t rkey)
{
	struct attempt t = {r, op, (uintptr_t)remote, rkey, 0};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, run_attempt, &t), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return t.status;
}

/* The same on this thread. */
static void transfer(struct rig *r, enum ibv_wr_opcode op, const void *remote, uint32_t rkey,
		     enum ibv_wc_status status)
{
	assert_int_equal(rdma(&r->a, op, 1, 0, LEN, (uintptr_t)remote, rkey, IBV_SEND_SIGNALED), 0);
	expect_wc(r->a.scq, 1, status);
}

/* ---- helpers ---- */

static struct ibv_mr *reg(struct rig *r, void *p, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(r->pd, p, len, (int)rig_opts.access);

	assert_non_null(mr);
	return mr;
}

/* Mappings of the tests' memfds in this process. */
static unsigned count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:rig") != NULL;
	fclose(f);
	return n;
}

static void expect_maps(unsigned n)
{
	for (unsigned ms = 0; count_maps() != n && ms < RIG_PATIENCE_MS; ms++)
		usleep(1000);
	assert_int_equal(count_maps(), n);
}

static int setup(void **state)
{
	setenv("RIG_MEMFD", "1", 1);
	return rig_setup(state);
}

/* ---- what is mapped ---- */

static void no_system_call_between_sealed_memories(void **state)
{
	struct rig *r = *state;

	memset(r->a.buf, 'w', LEN);
	assert_int_equal(without_system_call(r, IBV_WR_RDMA_WRITE, r->b.buf, r->b.mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(r->a.buf, r->b.buf, LEN);
	memset(r->b.buf, 'r', LEN);
	assert_int_equal(without_system_call(r, IBV_WR_RDMA_READ, r->b.buf, r->b.mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(r->a.buf, r->b.buf, LEN);
	memset(r->a.buf, 's', LEN);
	assert_int_equal(recv_at(&r->b, 7, LEN, LEN), 0);
	assert_int_equal(without_system_call(r, IBV_WR_SEND, NULL, 0), IBV_WC_SUCCESS);
	expect_wc(r->b.rcq, 7, IBV_WC_SUCCESS);
	assert_memory_equal(r->a.buf, r->b.buf + LEN, LEN);
}

/* A part of a memfd, at an address of its own in work requests. */
static void region_within_a_memfd(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *mr = ibv_reg_mr_iova(r->pd, r->b.buf + 5 * PAGE + 100, LEN, 0x1000,
					    rig_opts.access);

	assert_non_null(mr);
	memset(r->a.buf, 'p', LEN);
	assert_int_equal(without_system_call(r, IBV_WR_RDMA_WRITE, (void *)0x1000, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(r->a.buf, r->b.buf + 5 * PAGE + 100, LEN);
	assert_int_equal(r->b.buf[5 * PAGE + 99] | r->b.buf[5 * PAGE + 100 + LEN], 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* As with a device, which keeps the pages that were registered. */
static void unmapped_by_its_owner(void **state)
{
	struct rig *r = *state;
	uint8_t *again;

	transfer(r, IBV_WR_RDMA_WRITE, r->b.buf, r->b.mr->rkey, IBV_WC_SUCCESS);
	rig_unmap(r->a.buf, RIG_BUF);
	rig_unmap(r->b.buf, RIG_BUF);
	transfer(r, IBV_WR_RDMA_WRITE, r->b.buf, r->b.mr->rkey, IBV_WC_SUCCESS);
	transfer(r, IBV_WR_RDMA_READ, r->b.buf, r->b.mr->rkey, IBV_WC_SUCCESS);
	again = mmap(r->b.buf, RIG_BUF, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, r->b.fd, 0);
	assert_ptr_equal(again, r->b.buf);
	again = mmap(r->a.buf, RIG_BUF, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, r->a.fd, 0);
	assert_ptr_equal(again, r->a.buf);
}

/* ---- what is not, and is copied all the same ---- */

static void is_copied_by_system_call(struct rig *r, uint8_t *p)
{
	struct ibv_mr *mr = reg(r, p, LEN);
	struct rig other;

	memset(r->a.buf, 'u', LEN);
	transfer(r, IBV_WR_RDMA_WRITE, p, mr->rkey, IBV_WC_SUCCESS);
	assert_memory_equal(p, r->a.buf, LEN);
	memset(r->a.buf, 0, LEN);
	transfer(r, IBV_WR_RDMA_READ, p, mr->rkey, IBV_WC_SUCCESS);
	assert_memory_equal(p, r->a.buf, LEN);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	rig_up(&other);
	mr = reg(&other, p, LEN);
	assert_int_not_equal(without_system_call(&other, IBV_WR_RDMA_WRITE, p, mr->rkey),
			     IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	rig_down(&other);
}

/* A memfd without the seal may shrink at any time: then it is memory that is gone, no SIGBUS. */
static void unsealed_memfd(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *mr;
	int fd;
	uint8_t *p = sealed_memory(LEN, 0, &fd);

	is_copied_by_system_call(r, p);
	mr = reg(r, p, LEN);
	transfer(r, IBV_WR_RDMA_WRITE, p, mr->rkey, IBV_WC_SUCCESS);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	transfer(r, IBV_WR_RDMA_WRITE, p, mr->rkey, IBV_WC_REM_OP_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(p, LEN);
	close(fd);
}

static void private_mapping_of_a_sealed_memfd(void **state)
{
	struct rig *r = *state;
	int fd;
	uint8_t *shared = sealed_memory(LEN, F_SEAL_SHRINK, &fd);
	uint8_t *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	is_copied_by_system_call(r, p);
	assert_int_equal(shared[0], 0); /* the region is the private copy */
	munmap(shared, LEN);
	munmap(p, LEN);
	close(fd);
}

static void closed_descriptor(void **state)
{
	int fd;
	uint8_t *p = sealed_memory(LEN, F_SEAL_SHRINK, &fd);

	close(fd);
	is_copied_by_system_call(*state, p);
	munmap(p, LEN);
}

/* Pages that do not follow one another in the file. */
static void mapping_of_two_places(void **state)
{
	int fd;
	uint8_t *p = sealed_memory(2 * LEN, F_SEAL_SHRINK, &fd);

	assert_ptr_equal(mmap(p, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, LEN), p);
	is_copied_by_system_call(*state, p);
	munmap(p, 2 * LEN);
	close(fd);
}

static void file_that_is_no_memfd(void **state)
{
	FILE *f = tmpfile();
	uint8_t *p;

	assert_non_null(f);
	assert_int_equal(ftruncate(fileno(f), LEN), 0);
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	is_copied_by_system_call(*state, p);
	munmap(p, LEN);
	fclose(f);
}

/* Most of them have no place in the table of shares. */
static void many_memfds(void **state)
{
	static uint8_t *p[MANY];
	static struct ibv_mr *mr[MANY];
	static int fd[MANY];
	struct rlimit limit;
	struct rig *r = *state;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (unsigned i = 0; i < MANY; i++) {
		p[i] = sealed_memory(LEN, F_SEAL_SHRINK, &fd[i]);
		mr[i] = reg(r, p[i], LEN);
	}
	for (unsigned i = 0; i < MANY; i++) {
		memset(r->a.buf, (int)(i % 251 + 1), LEN);
		transfer(r, IBV_WR_RDMA_WRITE, p[i], mr[i]->rkey, IBV_WC_SUCCESS);
		assert_memory_equal(p[i], r->a.buf, LEN);
	}
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
		munmap(p[i], LEN);
		close(fd[i]);
	}
}

static void many_regions_of_one_memfd(void **state)
{
	struct rig *r = *state;
	static struct ibv_mr *mr[MANY];
	unsigned n_before;

	transfer(r, IBV_WR_RDMA_WRITE, r->b.buf, r->b.mr->rkey, IBV_WC_SUCCESS);
	n_before = count_maps();
	for (unsigned i = 0; i < MANY; i++)
		mr[i] = reg(r, r->b.buf + i, LEN);
	for (unsigned i = 0; i < MANY; i++) {
		memset(r->a.buf, (int)(i % 251 + 1), LEN);
		transfer(r, IBV_WR_RDMA_WRITE, r->b.buf + i, mr[i]->rkey, IBV_WC_SUCCESS);
		assert_memory_equal(r->b.buf + i, r->a.buf, LEN);
	}
	assert_int_equal(count_maps(), n_before);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
}

/* ---- keys ---- */

static void deregistered_while_mapped(void **state)
{
	struct rig *r = *state;
	int fd;
	uint8_t *p = sealed_memory(LEN, F_SEAL_SHRINK, &fd);
	struct ibv_mr *mr = reg(r, p, LEN);
	uint32_t key = mr->rkey;
	unsigned n;

	memset(r->a.buf, '1', LEN);
	transfer(r, IBV_WR_RDMA_WRITE, p, key, IBV_WC_SUCCESS);
	n = count_maps();
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(count_maps(), n - 1);
	memset(r->a.buf, '2', LEN);
	transfer(r, IBV_WR_RDMA_WRITE, p, key, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(p[0], '1');
	munmap(p, LEN);
	close(fd);
}

/* The place in the table, and the descriptor, are used again for other memory. */
static void place_is_used_again(void **state)
{
	struct rig *r = *state;
	int first_fd, fd;
	uint8_t *first = sealed_memory(LEN, F_SEAL_SHRINK, &first_fd), *p;
	struct ibv_mr *mr = reg(r, first, LEN);

	memset(r->a.buf, '1', LEN);
	transfer(r, IBV_WR_RDMA_WRITE, first, mr->rkey, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	close(first_fd);
	p = sealed_memory(LEN, F_SEAL_SHRINK, &fd);
	/* The helper may just have closed a lower one. */
	if (fd != first_fd && fcntl(fd, F_DUPFD, first_fd) == first_fd) {
		close(fd);
		fd = first_fd;
	}
	mr = reg(r, p, LEN);
	memset(r->a.buf, '2', LEN);
	assert_int_equal(without_system_call(r, IBV_WR_RDMA_WRITE, p, mr->rkey), IBV_WC_SUCCESS);
	assert_memory_equal(p, r->a.buf, LEN);
	assert_int_equal(first[0], '1');
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(first, LEN);
	munmap(p, LEN);
	close(fd);
}

/* The region stays, and its memory changes: ibv_rereg_mr(3). */
static void moved_region(void **state)
{
	struct rig *r = *state;
	int fd;
	uint8_t *p = sealed_memory(LEN, F_SEAL_SHRINK, &fd);
	struct ibv_mr *mr = reg(r, r->b.buf, LEN);

	memset(r->a.buf, 'm', LEN);
	transfer(r, IBV_WR_RDMA_WRITE, r->b.buf, mr->rkey, IBV_WC_SUCCESS);
	memset(r->b.buf, 0, LEN);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, LEN, 0), 0);
	assert_int_equal(without_system_call(r, IBV_WR_RDMA_WRITE, p, mr->rkey), IBV_WC_SUCCESS);
	assert_memory_equal(p, r->a.buf, LEN);
	assert_int_equal(r->b.buf[0], 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(p, LEN);
	close(fd);
}

/* A key that allows reading only, on memory that may be written through another one. */
static void read_only_key(void **state)
{
	struct rig *r = *state;
	struct ibv_mr *mr = ibv_reg_mr(r->pd, r->b.buf, LEN, IBV_ACCESS_REMOTE_READ);

	assert_non_null(mr);
	memset(r->b.buf, 'o', LEN);
	assert_int_equal(without_system_call(r, IBV_WR_RDMA_READ, r->b.buf, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(r->a.buf, r->b.buf, LEN);
	assert_int_equal(without_system_call(r, IBV_WR_RDMA_WRITE, r->b.buf, r->b.mr->rkey),
			 IBV_WC_SUCCESS);
	memset(r->a.buf, 'x', LEN);
	transfer(r, IBV_WR_RDMA_WRITE, r->b.buf, mr->rkey, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(r->b.buf[0], 'o');
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void invalidated_window(void **state)
{
	struct rig *r = *state;
	struct ibv_mw *mw = ibv_alloc_mw(r->pd, IBV_MW_TYPE_2);
	uint8_t *at = r->b.buf + 3 * PAGE;
	struct ibv_send_wr wr = {.wr_id = 5,
				 .opcode = IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint32_t key;

	assert_non_null(mw);
	key = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = key;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = r->b.mr,
		.addr = (uintptr_t)at,
		.length = LEN,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	assert_int_equal(ibv_post_send(r->b.qp, &wr, &bad), 0);
	expect_wc(r->b.scq, 5, IBV_WC_SUCCESS);
	memset(r->a.buf, 'v', LEN);
	assert_int_equal(without_system_call(r, IBV_WR_RDMA_WRITE, at, key), IBV_WC_SUCCESS);
	assert_memory_equal(at, r->a.buf, LEN);
	assert_int_equal(at[-1] | at[LEN], 0);
	wr = (struct ibv_send_wr){.wr_id = 6,
				  .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = key};
	assert_int_equal(ibv_post_send(r->b.qp, &wr, &bad), 0);
	expect_wc(r->b.scq, 6, IBV_WC_SUCCESS);
	memset(r->a.buf, 'i', LEN);
	transfer(r, IBV_WR_RDMA_WRITE, at, key, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(at[0], 'v');
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* ---- another process ---- */

struct far {
	pid_t pid;
	int orders, answers;
	uint32_t qpn, rkey;
	uint64_t at;
};

static uint32_t read_number(int fd)
{
	uint32_t n = 0;

	return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

/* The other process: a queue pair for this one's, and b's memory. It ends when told, or killed. */
static int far_main(int orders, int answers)
{
	struct far f = {0};
	struct ibv_qp *qp;
	struct rig r;
	char order;

	rig_up(&r);
	qp = rig_new_qp(&r, &r.b, NULL);
	to_init(qp);
	memset(r.b.buf, 'f', RIG_BUF);
	f.qpn = qp->qp_num;
	f.rkey = r.b.mr->rkey;
	f.at = (uintptr_t)r.b.buf;
	if (write(answers, &f, sizeof(f)) != sizeof(f) || to_rtr(qp, read_number(orders)) ||
	    to_rts(qp) || write(answers, "r", 1) != 1)
		return 1;
	while (read(orders, &order, 1) == 1 && order == 'd') {
		ibv_dereg_mr(r.b.mr);
		if (write(answers, "d", 1) != 1)
			return 1;
	}
	return 0;
}

/* Starts it before this process has opened the device; then connects a's end to it. */
static void far_up(struct far *f, struct rig *r)
{
	int to[2], from[2], here;
	char ready;
	pid_t pid;

	setenv("RIG_MEMFD", "1", 1);
	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	pid = fork();
	if (!pid) {
		close(to[1]);
		_exit(far_main(to[0], from[1]));
	}
	close(to[0]);
	close(from[1]);
	assert_int_equal(read(from[0], f, sizeof(*f)), sizeof(*f));
	f->pid = pid;
	f->orders = to[1];
	f->answers = from[0];
	rig_up(r);
	assert_int_equal(to_state(r->a.qp, IBV_QPS_RESET), 0);
	assert_int_equal(to_init(r->a.qp), 0);
	here = (int)r->a.qp->qp_num;
	assert_int_equal(write(f->orders, &here, sizeof(here)), sizeof(here));
	assert_int_equal(read(f->answers, &ready, 1), 1);
	assert_int_equal(to_rtr(r->a.qp, f->qpn), 0);
	assert_int_equal(to_rts(r->a.qp), 0);
}

static void far_down(struct far *f, struct rig *r)
{
	int status;

	close(f->orders);
	close(f->answers);
	assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
	rig_down(r);
	expect_maps(0);
}

static void other_process(void **state)
{
	struct far f;
	struct rig r;

	far_up(&f, &r);
	assert_int_equal(without_system_call(&r, IBV_WR_RDMA_READ, (void *)f.at, f.rkey),
			 IBV_WC_SUCCESS);
	assert_int_equal(r.a.buf[0], 'f');
	memset(r.a.buf, 'g', LEN);
	assert_int_equal(without_system_call(&r, IBV_WR_RDMA_WRITE, (void *)f.at, f.rkey),
			 IBV_WC_SUCCESS);
	memset(r.a.buf, 0, LEN);
	transfer(&r, IBV_WR_RDMA_READ, (void *)f.at, f.rkey, IBV_WC_SUCCESS);
	assert_int_equal(r.a.buf[LEN - 1], 'g');
	far_down(&f, &r);
}

/* Its memory is free at once, although this process only sleeps. */
static void other_process_deregisters(void **state)
{
	struct far f;
	struct rig r;
	unsigned n;
	char done;

	far_up(&f, &r);
	transfer(&r, IBV_WR_RDMA_READ, (void *)f.at, f.rkey, IBV_WC_SUCCESS);
	n = count_maps();
	assert_int_equal(write(f.orders, "d", 1), 1);
	assert_int_equal(read(f.answers, &done, 1), 1);
	expect_maps(n - 1);
	transfer(&r, IBV_WR_RDMA_READ, (void *)f.at, f.rkey, IBV_WC_REM_ACCESS_ERR);
	far_down(&f, &r);
}

static void *kill_it(void *arg)
{
	const struct far *f = arg;
	char order;

	(void)!read(f->answers, &order, 0);
	usleep((useconds_t)(f->pid % 7) * 300); /* somewhere in the copies */
	kill(f->pid, SIGKILL);
	return NULL;
}

/* No copy faults, and the queue pair fails as with any peer that does not answer. */
static void killed_while_we_copy(void **state)
{
	for (unsigned round = 0; round < 10; round++) {
		enum ibv_wc_status status = IBV_WC_SUCCESS;
		pthread_t killer;
		struct far f;
		struct rig r;

		far_up(&f, &r);
		assert_int_equal(pthread_create(&killer, NULL, kill_it, &f), 0);
		for (unsigned i = 0; status == IBV_WC_SUCCESS; i++) {
			assert_int_equal(rdma(&r.a, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i,
					      0, RIG_BUF, f.at, f.rkey, IBV_SEND_SIGNALED),
					 0);
			status = next_wc(r.a.scq).status;
		}
		assert_int_equal(status, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(pthread_join(killer, NULL), 0);
		far_down(&f, &r);
	}
}

/* Without a free descriptor the memory is copied by system calls, and no call fails. */
static void no_descriptor_is_free(void **state)
{
	struct rlimit limit, none;
	struct far f;
	struct rig r;

	far_up(&f, &r);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	transfer(&r, IBV_WR_RDMA_READ, (void *)f.at, f.rkey, IBV_WC_SUCCESS);
	assert_int_equal(r.a.buf[LEN - 1], 'f');
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	transfer(&r, IBV_WR_RDMA_WRITE, (void *)f.at, f.rkey, IBV_WC_SUCCESS);
	assert_int_not_equal(without_system_call(&r, IBV_WR_RDMA_READ, (void *)f.at, f.rkey),
			     IBV_WC_SUCCESS);
	far_down(&f, &r);
}

/* ibv_fork_init(3): a child shares what the program shares with it, and no view of ours. */
static void child_has_no_views(void **state)
{
	unsigned n_own = 2; /* a's and b's */
	struct rig *r = *state;
	int status;
	pid_t pid;

	transfer(r, IBV_WR_RDMA_WRITE, r->b.buf, r->b.mr->rkey, IBV_WC_SUCCESS);
	assert_int_equal(count_maps(), 2 * n_own);
	pid = fork();
	if (!pid)
		_exit(count_maps() == n_own ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	transfer(r, IBV_WR_RDMA_WRITE, r->b.buf, r->b.mr->rkey, IBV_WC_SUCCESS);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_process),
		cmocka_unit_test(other_process_deregisters),
		cmocka_unit_test(killed_while_we_copy),
		cmocka_unit_test(no_descriptor_is_free),
		T(no_system_call_between_sealed_memories),
		T(region_within_a_memfd),
		T(unmapped_by_its_owner),
		T(unsealed_memfd),
		T(private_mapping_of_a_sealed_memfd),
		T(closed_descriptor),
		T(mapping_of_two_places),
		T(file_that_is_no_memfd),
		T(many_memfds),
		T(many_regions_of_one_memfd),
		T(deregistered_while_mapped),
		T(place_is_used_again),
		T(moved_region),
		T(read_only_key),
		T(invalidated_window),
		T(child_has_no_views),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
