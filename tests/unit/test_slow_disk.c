/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A disk that hangs beside a good one, on one loop: the good one still gets threads and
 * asynchronous I/O. The test defines io_submit and fdatasync itself, ahead of the libraries'. For
 * the disk that hangs they accept operations, which complete only when the test releases them.
 *
 * And a disk that is full (it has no tags left): with RWF_NOWAIT the kernel answers -EAGAIN,
 * without it the call would wait. Here it is a file, of which io_submit accepts a fixed number, or
 * every second operation. A real -EAGAIN comes from a read of an empty pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "target/store/backends.h"
#include "target/store/fd.h"
#include "target/store/thread.h"

enum {
	BLOCK = 4096,
	N_IOS = 128,
	FILE_BYTES = N_IOS * BLOCK,
};

static char directory[] = "/tmp/test_slow_disk.XXXXXX";
static struct loop loop;
static struct backend_thread *thread;
static _Alignas(4096) uint8_t buffer[BLOCK];

/* ---- the disk that hangs -------------------------------------------------------------------- */

static struct {
	int fd; /* of the disk that hangs; 0: there is none */
	unsigned n;
	struct iocb *iocbs[N_IOS];
	void *context; /* of the last io_submit */
	bool is_released;
	unsigned n_tags; /* its tags; 0: it is never full */
} hang;

static struct {
	int fd;		      /* of the disk that is sometimes full; 0: there is none */
	bool is_unknown;      /* its kernel refuses RWF_NOWAIT */
	bool is_unknown_late; /* refuses it only when the I/O reaches the device */
	unsigned n_unknown;
	unsigned n_asked, n_full, n_waited;
} flaky;

static int empty_pipe[2];

static pthread_mutex_t hang_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hang_over = PTHREAD_COND_INITIALIZER;

static bool hangs(const struct iocb *iocb)
{
	return hang.fd && (int)iocb->aio_fildes == hang.fd;
}

/* Answers -EAGAIN, by a read of an empty pipe. */
static int submit_full(void *context, struct iocb *iocb)
{
	struct iocb *one = iocb;

	assert_true(iocb->aio_rw_flags & RWF_NOWAIT); /* or it would wait for ever */
	flaky.n_full++;
	iocb->aio_fildes = (unsigned)empty_pipe[0];
	iocb->aio_lio_opcode = IOCB_CMD_PREAD;
	return (int)syscall(SYS_io_submit, context, 1, &one);
}

/* fs/aio.c, struct aio_ring: the kernel's ring of results. */
struct ring {
	unsigned id, n_events, head, tail, magic, features[2], header_length;
	struct io_event events[];
};

/* Answers -EOPNOTSUPP: submits as to a full disk, whose result is in the ring at once, and
 * rewrites that result. */
static int submit_unknown(void *context, struct iocb *iocb)
{
	struct ring *ring = context;
	unsigned at = ring->tail;
	int r = submit_full(context, iocb);

	flaky.n_full--;
	flaky.n_unknown++;
	assert_int_equal(r, 1);
	assert_int_equal(ring->events[at].res, -EAGAIN);
	ring->events[at].res = -EOPNOTSUPP;
	return r;
}

static bool is_full(const struct iocb *iocb)
{
	if (hangs(iocb))
		return hang.n_tags && hang.n >= hang.n_tags;
	return flaky.fd && (int)iocb->aio_fildes == flaky.fd && iocb->aio_rw_flags & RWF_NOWAIT &&
	       flaky.n_asked++ % 2;
}

/* Processes the leading iocbs that hang, or the leading ones that do not: io_submit may accept
 * fewer than it is given. */
int io_submit(void *context, long n, struct iocb **iocbs);
int io_submit(void *context, long n, struct iocb **iocbs)
{
	bool is_hanging = hangs(iocbs[0]);
	long n_alike = 1, r;

	hang.context = context;
	if (flaky.is_unknown && iocbs[0]->aio_rw_flags & RWF_NOWAIT)
		return -EOPNOTSUPP;
	if (flaky.is_unknown_late && iocbs[0]->aio_rw_flags & RWF_NOWAIT)
		return submit_unknown(context, iocbs[0]);
	if (flaky.fd || hang.n_tags)
		n = 1;
	if (is_full(iocbs[0]))
		return submit_full(context, iocbs[0]);
	while (n_alike < n && hangs(iocbs[n_alike]) == is_hanging)
		n_alike++;
	if (is_hanging) {
		assert_true(hang.n + n_alike <= N_IOS);
		for (long i = 0; i < n_alike; i++)
			hang.iocbs[hang.n++] = iocbs[i];
		return (int)n_alike;
	}
	r = syscall(SYS_io_submit, context, n_alike, iocbs);
	return r < 0 ? -errno : (int)r;
}

/* Syncs that a worker thread runs. */
static void count_waited(int fd)
{
	pthread_mutex_lock(&hang_lock);
	flaky.n_waited += flaky.fd && fd == flaky.fd;
	pthread_mutex_unlock(&hang_lock);
}

ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	count_waited(fd);
	return syscall(SYS_preadv2, fd, iov, n, at, 0, flags);
}

ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	count_waited(fd);
	return syscall(SYS_pwritev2, fd, iov, n, at, 0, flags);
}

int fdatasync(int fd)
{
	pthread_mutex_lock(&hang_lock);
	if (fd == hang.fd)
		hang.n++;
	while (fd == hang.fd && !hang.is_released)
		pthread_cond_wait(&hang_over, &hang_lock);
	pthread_mutex_unlock(&hang_lock);
	return (int)syscall(SYS_fdatasync, fd);
}

/* ---- running -------------------------------------------------------------------------------- */

struct test_io {
	struct backend_io io;
	bool is_done;
	int error;
};

static void on_done(struct backend_io *io, int error)
{
	struct test_io *t = container_of(io, struct test_io, io);

	assert_false(t->is_done);
	t->is_done = true;
	t->error = error;
}

static void start(struct backend *backend, struct test_io *t)
{
	t->io.done = on_done;
	backend_submit(backend, thread, &t->io);
}

static void finish_all(struct test_io *ios)
{
	for (unsigned i = 0; i < N_IOS; i++) {
		while (!ios[i].is_done)
			loop_turn(&loop, UINT64_MAX);
		assert_int_equal(ios[i].error, 0);
	}
}

static void set_up_thread(unsigned depth)
{
	memset(&hang, 0, sizeof(hang));
	memset(&flaky, 0, sizeof(flaky));
	assert_int_equal(loop_init(&loop, 0, NULL), 0);
	assert_int_equal(backend_thread_new(&loop, 0, depth, &thread), 0);
}

static int set_up_aio(void **state)
{
	set_up_thread(32);
	return 0;
}

static int set_up_pool(void **state)
{
	set_up_thread(0);
	return 0;
}

static int tear_down(void **state)
{
	backend_thread_free(thread);
	loop_deinit(&loop);
	return 0;
}

static struct backend *open_file(const char *name)
{
	char path[128];
	struct error refused;
	struct backend_config config = {
		.path = path, .block_size = 512, .size_bytes = FILE_BYTES, .must_create = true};
	struct backend *backend = NULL;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (backend_file.open(&config, &backend, &refused) < 0)
		fail_msg("%s", refused.message);
	return backend;
}

/* N_IOS at once. */
static void start_all(struct backend *backend, struct test_io *ios, enum backend_op op)
{
	bool has_data = op == BACKEND_READ || op == BACKEND_WRITE;

	memset(ios, 0, N_IOS * sizeof(*ios));
	for (unsigned i = 0; i < N_IOS; i++) {
		ios[i].io = (struct backend_io){.op = op,
						.offset = has_data ? i * BLOCK : 0,
						.length = has_data ? BLOCK : 0,
						.buffer = has_data ? buffer : NULL};
		start(backend, &ios[i]);
	}
}

/* ---- tests ---------------------------------------------------------------------------------- */

static struct test_io hung[N_IOS], good[N_IOS];

static struct backend *open_hanging(enum backend_op op)
{
	struct backend *backend = open_file("hanging");

	hang.fd = container_of(backend, struct backend_fd, backend)->fd;
	start_all(backend, hung, op);
	return backend;
}

/* The good disk completes all operations while the other completes none. */
static void use_good(void)
{
	struct backend *backend = open_file("good");

	for (int op = BACKEND_READ; op <= BACKEND_FLUSH; op++) {
		start_all(backend, good, (enum backend_op)op);
		finish_all(good);
	}
	for (unsigned i = 0; i < N_IOS; i++)
		assert_false(hung[i].is_done);
	backend_file.close(backend);
}

static unsigned count_hanging(void)
{
	unsigned n;

	pthread_mutex_lock(&hang_lock);
	n = hang.n;
	pthread_mutex_unlock(&hang_lock);
	return n;
}

static void leaves_threads(void **state)
{
	struct backend *bad = open_hanging(BACKEND_FLUSH);

	while (count_hanging() < 8)
		usleep(1000);
	use_good();
	assert_int_equal(count_hanging(), 8); /* no further thread hangs */
	pthread_mutex_lock(&hang_lock);
	hang.is_released = true;
	pthread_cond_broadcast(&hang_over);
	pthread_mutex_unlock(&hang_lock);
	finish_all(hung);
	backend_file.close(bad);
}

static void leaves_depth(void **state)
{
	struct backend *bad = open_hanging(BACKEND_READ);
	unsigned n;

	use_good();
	n = hang.n;
	assert_in_range(n, 16, 31); /* most of 32, and not all */
	hang.fd = 0;
	assert_int_equal(syscall(SYS_io_submit, hang.context, n, hang.iocbs), n);
	finish_all(hung);
	backend_file.close(bad);
}

static struct backend *open_full(int *fd)
{
	struct backend *backend = open_file("full");
	struct backend_fd *disk = container_of(backend, struct backend_fd, backend);

	disk->can_be_full = true;
	*fd = disk->fd;
	return backend;
}

/* It accepts 4 operations and hangs: only a few submissions fail, and the good disk does not
 * wait. */
static void is_full_and_hangs(void **state)
{
	struct backend *bad = open_full(&hang.fd);

	hang.n_tags = 4;
	start_all(bad, hung, BACKEND_READ);
	use_good();
	assert_int_equal(hang.n, 4);
	assert_in_range(flaky.n_full, 1, 32);
	hang.fd = 0;
	assert_int_equal(syscall(SYS_io_submit, hang.context, 4, hang.iocbs), 4);
	finish_all(hung);
	backend_file.close(bad);
}

/* Every second submission fails: each operation is done once, and the written data is there. */
static void is_full_now_and_then(void **state)
{
	struct backend *backend = open_full(&flaky.fd);

	for (unsigned round = 0; round < 2; round++) {
		memset(buffer, 'a' + (int)round, sizeof(buffer));
		start_all(backend, good, BACKEND_WRITE);
		finish_all(good);
		memset(buffer, 0, sizeof(buffer));
		start_all(backend, good, BACKEND_READ);
		finish_all(good);
		for (unsigned i = 0; i < BLOCK; i++)
			assert_int_equal(buffer[i], 'a' + round);
	}
	assert_true(flaky.n_full > 0);
	backend_file.close(backend);
}

/* Nothing of this backend is in flight, so no completion of its own will free a tag: a worker
 * thread waits, with FUA too. */
static void is_full_of_others(void **state)
{
	struct backend *backend = open_full(&flaky.fd);

	for (unsigned i = 0; i < 2; i++) {
		struct test_io t = {.io = {.op = i ? BACKEND_READ : BACKEND_WRITE,
					   .is_fua = !i,
					   .length = BLOCK,
					   .buffer = buffer}};

		flaky.n_asked = 1;
		start(backend, &t);
		while (!t.is_done)
			loop_turn(&loop, UINT64_MAX);
		assert_int_equal(t.error, 0);
		assert_int_equal(flaky.n_waited, i + 1);
	}
	backend_file.close(backend);
}

/* The kernel does not support RWF_NOWAIT: it is tried once, and later I/O waits. */
static void cannot_tell(void **state)
{
	struct backend *backend = open_full(&flaky.fd);

	flaky.is_unknown = true;
	start_all(backend, good, BACKEND_READ);
	finish_all(good);
	assert_int_equal(flaky.n_full, 0);
	assert_int_equal(flaky.n_waited, 0);
	backend_file.close(backend);
}

/* The volume's device-mapper table changes to a target without support for RWF_NOWAIT. */
static void cannot_tell_any_more(void **state)
{
	struct backend *backend = open_full(&flaky.fd);

	start_all(backend, good, BACKEND_READ);
	finish_all(good);
	assert_true(flaky.n_full > 0);
	flaky.n_full = flaky.n_waited = 0;
	flaky.is_unknown_late = true;
	for (int op = BACKEND_WRITE; op >= BACKEND_READ; op--) {
		start_all(backend, good, (enum backend_op)op);
		finish_all(good);
	}
	assert_true(flaky.n_unknown > 0);
	assert_int_equal(flaky.n_full, 0);
	backend_file.close(backend);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(leaves_threads, set_up_pool, tear_down),
		cmocka_unit_test_setup_teardown(leaves_depth, set_up_aio, tear_down),
		cmocka_unit_test_setup_teardown(is_full_and_hangs, set_up_aio, tear_down),
		cmocka_unit_test_setup_teardown(is_full_now_and_then, set_up_aio, tear_down),
		cmocka_unit_test_setup_teardown(is_full_of_others, set_up_aio, tear_down),
		cmocka_unit_test_setup_teardown(cannot_tell, set_up_aio, tear_down),
		cmocka_unit_test_setup_teardown(cannot_tell_any_more, set_up_aio, tear_down),
	};
	char command[128];
	int n_failed;

	log_init("test_slow_disk", LOG_ERR);
	if (!mkdtemp(directory) || pipe2(empty_pipe, O_NONBLOCK | O_CLOEXEC) < 0)
		return 1;
	n_failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command) || n_failed;
}
