/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores that fail, and stores whose growth fails. The test provokes errors of the kernel by
 * defining io_submit, fdatasync, fsync and fallocate itself, ahead of the libraries'.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/falloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "target/store/backends.h"
#include "target/store/grow.h"
#include "target/store/thread.h"

enum {
	BLOCK = 4096,
	FILE_BYTES = 64 * BLOCK,
};

static char directory[] = "/tmp/test_failing_store.XXXXXX";
static struct loop loop;
static struct backend_thread *thread;
static uint8_t buffer[BLOCK] __attribute__((aligned(BLOCK)));

/* ---- faults --------------------------------------------------------------------------------- */

static struct {
	int dsync_error;   /* -errno of writes with RWF_DSYNC */
	int flush_error;   /* errno of flushes */
	int fsync_error;   /* errno */
	const char *grows; /* another program extends this file just before a hole is made */
} fault;

int io_submit(void *context, long n, struct iocb **iocbs);
int io_submit(void *context, long n, struct iocb **iocbs)
{
	long r;

	if (fault.dsync_error && iocbs[0]->aio_rw_flags)
		return fault.dsync_error;
	if (fault.flush_error && iocbs[0]->aio_lio_opcode == IOCB_CMD_FDSYNC)
		return -fault.flush_error;
	r = syscall(SYS_io_submit, context, n, iocbs);
	return r < 0 ? -errno : (int)r;
}

int fdatasync(int fd)
{
	if (fault.flush_error) {
		errno = fault.flush_error;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
	if (fault.fsync_error) {
		errno = fault.fsync_error;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

static void grow_and_write(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, buffer, BLOCK), BLOCK);
	assert_int_equal(fdatasync(fd), 0);
	close(fd);
}

int fallocate(int fd, int mode, off_t offset, off_t n)
{
	const char *path = fault.grows;

	fault.grows = NULL;
	if (path)
		grow_and_write(path);
	return (int)syscall(SYS_fallocate, fd, mode, offset, n);
}

/* ---- running -------------------------------------------------------------------------------- */

struct test_io {
	struct backend_io io;
	bool is_done;
	int error;
};

static struct {
	unsigned n;
	int error;
	bool is_short;
} heard;

static void on_error(struct backend *backend, struct backend_io *io, int error)
{
	assert_ptr_equal(backend->owner, &heard);
	heard.n++;
	heard.error = error;
	heard.is_short = io->is_short;
}

static void on_done(struct backend_io *io, int error)
{
	struct test_io *t = container_of(io, struct test_io, io);

	t->is_done = true;
	t->error = error;
}

static int run(struct backend *backend, enum backend_op op, uint64_t offset, bool is_fua)
{
	struct test_io t = {.io = {.op = op,
				   .is_fua = is_fua,
				   .offset = offset,
				   .length = op == BACKEND_FLUSH ? 0 : BLOCK,
				   .buffer = buffer,
				   .done = on_done}};

	backend_submit(backend, thread, &t.io);
	while (!t.is_done)
		loop_turn(&loop, UINT64_MAX);
	return t.error;
}

static int set_up_with(unsigned depth)
{
	memset(&fault, 0, sizeof(fault));
	memset(&heard, 0, sizeof(heard));
	memset(buffer, 0xee, sizeof(buffer));
	assert_int_equal(loop_init(&loop, 0, NULL), 0);
	return backend_thread_new(&loop, 0, depth, &thread);
}

static int set_up(void **state)
{
	return set_up_with(32);
}

static int set_up_pool(void **state)
{
	return set_up_with(0);
}

static int tear_down(void **state)
{
	backend_thread_free(thread);
	loop_deinit(&loop);
	return 0;
}

static struct backend_config new_file(uint64_t size)
{
	static char path[128];
	static unsigned n;
	int fd;

	snprintf(path, sizeof(path), "%s/%u", directory, n++);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
	return (struct backend_config){.path = path, .block_size = 512};
}

static struct backend *must_open(const struct backend_ops *ops, const struct backend_config *config)
{
	struct backend *backend = NULL;
	struct error refused;

	if (ops->open(config, &backend, &refused) < 0)
		fail_msg("%s", refused.message);
	backend->owner = &heard;
	backend->on_error = on_error;
	return backend;
}

static uint64_t size_of(const struct backend_config *config)
{
	struct stat st;

	assert_int_equal(stat(config->path, &st), 0);
	return (uint64_t)st.st_size;
}

/* ---- syncs that fail ------------------------------------------------------------------------ */

/* The kernel reports a lost write once: the next sync would succeed although data is lost. */
static void failed_fua_write_is_final(void **state)
{
	static const int errors[] = {-EIO, -ENODATA, -EROFS, -ENOLINK, -EREMOTEIO};

	for (unsigned i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		struct backend_config config = new_file(FILE_BYTES);
		struct backend *backend = must_open(&backend_file, &config);

		assert_int_equal(run(backend, BACKEND_WRITE, 0, false), 0);
		fault.dsync_error = errors[i];
		assert_int_equal(run(backend, BACKEND_WRITE, BLOCK, true), errors[i]);
		fault.dsync_error = 0;
		assert_true(atomic_load(&backend->has_failed));
		assert_int_equal(run(backend, BACKEND_FLUSH, 0, false), -EIO);
		assert_int_equal(run(backend, BACKEND_WRITE, BLOCK, true), -EIO);
		assert_int_equal(run(backend, BACKEND_WRITE, BLOCK, false), -EIO);
		assert_int_equal(run(backend, BACKEND_READ, 0, false), 0);
		assert_int_equal(heard.n, 4 * (i + 1));
		backend_file.close(backend);
	}
}

/* A flush that fails for any reason is final for the store itself, whatever its user remembers. */
static void failed_flush_is_final(void **state)
{
	static const int errors[] = {EIO, ENOSPC, EDQUOT};

	for (unsigned i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		struct backend_config config = new_file(FILE_BYTES);
		struct backend *backend = must_open(&backend_file, &config);

		assert_int_equal(run(backend, BACKEND_WRITE, 0, false), 0);
		fault.flush_error = errors[i];
		assert_int_equal(run(backend, BACKEND_FLUSH, 0, false), -errors[i]);
		fault.flush_error = 0;
		assert_true(atomic_load(&backend->has_failed));
		assert_int_equal(run(backend, BACKEND_FLUSH, 0, false), -EIO);
		assert_int_equal(run(backend, BACKEND_WRITE, BLOCK, false), -EIO);
		assert_int_equal(run(backend, BACKEND_READ, 0, false), 0);
		backend_file.close(backend);
	}
}

/* An error that refuses only this write loses no acknowledged data. */
static void refused_fua_write_is_not(void **state)
{
	static const int errors[] = {-ENOSPC, -EDQUOT, -EFBIG, -EINVAL, -ENOMEM};
	struct backend_config config = new_file(FILE_BYTES);
	struct backend *backend = must_open(&backend_file, &config);

	for (unsigned i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		fault.dsync_error = errors[i];
		assert_int_equal(run(backend, BACKEND_WRITE, BLOCK, true), errors[i]);
		assert_int_equal(heard.error, errors[i]);
		fault.dsync_error = 0;
		assert_int_equal(run(backend, BACKEND_FLUSH, 0, false), 0);
		assert_int_equal(run(backend, BACKEND_WRITE, BLOCK, true), 0);
	}
	assert_int_equal(heard.n, sizeof(errors) / sizeof(*errors));
	assert_false(atomic_load(&backend->has_failed));
	backend_file.close(backend);
}

/* Growing syncs the file, and its fsync consumes the kernel's one report of lost writes. */
static void failed_sync_of_growing_is_final(void **state)
{
	struct backend_config config = new_file(FILE_BYTES);
	struct backend *backend = must_open(&backend_file, &config);
	struct error refused;

	assert_int_equal(run(backend, BACKEND_WRITE, 0, false), 0);
	fault.fsync_error = EIO;
	assert_int_equal(backend_file.resize(backend, 2 * FILE_BYTES, &refused), -EIO);
	fault.fsync_error = 0;
	assert_true(atomic_load(&backend->has_failed));
	assert_int_equal(run(backend, BACKEND_FLUSH, 0, false), -EIO);
	assert_true(backend_undo_grow(backend));
	assert_int_equal(size_of(&config), FILE_BYTES);
	backend_file.close(backend);
}

/* The report states that the file ended early: "Input/output error" alone leads people to
 * suspect the disk. */
static void what_ends_early_is_said(void **state)
{
	struct backend_config config = new_file(FILE_BYTES);
	struct backend *backend = must_open(&backend_file, &config);

	assert_int_equal(truncate(config.path, BLOCK), 0);
	assert_int_equal(run(backend, BACKEND_READ, 8 * BLOCK, false), -EIO);
	assert_int_equal(heard.n, 1);
	assert_true(heard.is_short);
	assert_int_equal(run(backend, BACKEND_READ, 0, false), 0);
	assert_int_equal(heard.n, 1);
	backend_file.close(backend);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static void growing_is_undone(void **state)
{
	struct backend_config config = new_file(FILE_BYTES);
	struct backend *backend = must_open(&backend_file, &config);
	struct error refused;

	assert_true(backend_undo_grow(backend)); /* nothing to do */
	assert_int_equal(backend_file.resize(backend, 2 * FILE_BYTES, &refused), 0);
	assert_true(backend_undo_grow(backend));
	assert_int_equal(size_of(&config), FILE_BYTES);
	assert_int_equal(backend->limits.size_bytes, FILE_BYTES);
	assert_int_equal(backend_file.resize(backend, 2 * FILE_BYTES, &refused), 0);
	backend_keep_grown(backend);
	assert_true(backend_undo_grow(backend));
	assert_int_equal(size_of(&config), 2 * FILE_BYTES);
	assert_int_equal(backend_file.resize(backend, 3 * FILE_BYTES, &refused), 0);
	grow_and_write(config.path); /* bytes of another program are never cut off */
	assert_false(backend_undo_grow(backend));
	assert_int_equal(size_of(&config), 3 * FILE_BYTES + BLOCK);
	backend_file.close(backend);
}

/* Another rblkd may serve the new part by now. */
static void shared_files_are_not_cut(void **state)
{
	struct backend_config config = new_file(FILE_BYTES);
	struct backend *backend;
	struct error refused;

	config.is_shared = true;
	backend = must_open(&backend_file, &config);
	assert_int_equal(backend_file.resize(backend, 2 * FILE_BYTES, &refused), 0);
	assert_false(backend_undo_grow(backend));
	assert_int_equal(size_of(&config), 2 * FILE_BYTES);
	backend_file.close(backend);
}

static void memory_grows_again(void **state)
{
	struct backend_config config = {.size_bytes = BLOCK + 512, .block_size = 512};
	struct backend *backend = must_open(&backend_ram, &config);
	struct error refused;

	for (unsigned n = 8; n >= 2; n--) {
		assert_int_equal(backend_ram.resize(backend, n * BLOCK, &refused), 0);
		assert_int_equal(run(backend, BACKEND_READ, (n - 1) * BLOCK, false), 0);
		assert_true(backend_undo_grow(backend));
		assert_int_equal(backend->limits.size_bytes, BLOCK + 512);
		assert_int_equal(run(backend, BACKEND_READ, (n - 1) * BLOCK, false), -EIO);
	}
	assert_int_equal(backend_ram.resize(backend, 16 * BLOCK, &refused), 0);
	assert_int_equal(run(backend, BACKEND_READ, 15 * BLOCK, false), 0);
	backend_ram.close(backend);
}

/* The data that another program adds while this rblkd opens the file stays. */
static void opening_makes_no_hole(void **state)
{
	struct backend_config config = new_file(FILE_BYTES);
	uint8_t is[BLOCK] = {0};
	struct backend *backend;
	int fd;

	config.is_shared = true;
	fault.grows = config.path;
	backend = must_open(&backend_file, &config);
	assert_null(fault.grows); /* the other program has written */
	fd = open(config.path, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, is, BLOCK, FILE_BYTES), BLOCK);
	assert_memory_equal(is, buffer, BLOCK);
	close(fd);
	backend_file.close(backend);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(failed_fua_write_is_final, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_flush_is_final, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_flush_is_final, set_up_pool, tear_down),
		cmocka_unit_test_setup_teardown(refused_fua_write_is_not, set_up, tear_down),
		cmocka_unit_test_setup_teardown(failed_sync_of_growing_is_final, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_ends_early_is_said, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_ends_early_is_said, set_up_pool, tear_down),
		cmocka_unit_test_setup_teardown(growing_is_undone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(shared_files_are_not_cut, set_up, tear_down),
		cmocka_unit_test_setup_teardown(memory_grows_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(opening_makes_no_hole, set_up, tear_down),
	};
	char command[128];
	int n_failed;

	log_init("test_failing_store", LOG_ERR);
	if (!mkdtemp(directory))
		return 1;
	n_failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command) || n_failed;
}
