/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backends, on a real loop, with real files in a directory of their own. The test cannot provoke
 * some of the kernel's results at will (EAGAIN, short transfers, failing syncs), so it defines
 * io_submit and fdatasync itself, ahead of the libraries'.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/log.h"
#include "target/store/backends.h"
#include "tests/unit/backend_exercise.h"

static char directory[] = "/tmp/test_backend.XXXXXX";

/* ---- faults --------------------------------------------------------------------------------- */

static struct {
	unsigned n_calls;
	unsigned eagain_every; /* each call of io_submit with this multiple fails */
	unsigned at_most;      /* iocbs accepted by one call */
	unsigned short_bytes;  /* cuts transfers */
	int refuse_flush;      /* -errno for IO_CMD_FDSYNC */
	int refuse_dsync;      /* -errno for RWF_DSYNC */
	int sync_error;	       /* errno of fdatasync */
	unsigned n_syncs;
} fault;

int io_submit(void *context, long n, struct iocb **iocbs);
int io_submit(void *context, long n, struct iocb **iocbs)
{
	long r;

	fault.n_calls++;
	if (fault.eagain_every && fault.n_calls % fault.eagain_every == 0)
		return -EAGAIN;
	if (fault.at_most && n > fault.at_most)
		n = fault.at_most;
	for (long i = 0; i < n; i++) {
		int refuse = 0;

		if (iocbs[i]->aio_lio_opcode == IOCB_CMD_FDSYNC)
			refuse = fault.refuse_flush;
		else if (iocbs[i]->aio_rw_flags)
			refuse = fault.refuse_dsync;
		else if (fault.short_bytes && iocbs[i]->aio_nbytes > fault.short_bytes)
			iocbs[i]->aio_nbytes = fault.short_bytes;
		if (refuse && i == 0)
			return refuse;
		if (refuse) {
			n = i;
			break;
		}
	}
	r = syscall(SYS_io_submit, context, n, iocbs);
	return r < 0 ? -errno : (int)r;
}

int fdatasync(int fd)
{
	__atomic_add_fetch(&fault.n_syncs, 1, __ATOMIC_RELAXED);
	if (fault.sync_error) {
		errno = fault.sync_error;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

static int set_up_aio(void **state)
{
	memset(&fault, 0, sizeof(fault));
	set_up_thread(32);
	return 0;
}

static int set_up_pool(void **state)
{
	memset(&fault, 0, sizeof(fault));
	set_up_thread(0);
	return 0;
}

static char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static struct backend_config new_file(const char *name, uint64_t size)
{
	struct backend_config config = {.path = path_of(name), .block_size = 512};
	int fd = open(config.path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	close(fd);
	return config;
}

/* ---- files ---------------------------------------------------------------------------------- */

static void file_does_all(void **state)
{
	struct backend_config config = new_file("all", FILE_BYTES);
	struct backend *backend = must_open(&backend_file, &config);

	assert_true(backend->limits.has_volatile_cache);
	assert_int_equal(backend->limits.size_bytes, FILE_BYTES);
	exercise(backend, true);
	backend_file.close(backend);
}

static void file_survives_full_queue(void **state)
{
	struct backend_config config = new_file("eagain", FILE_BYTES);
	struct backend *backend = must_open(&backend_file, &config);

	fault.eagain_every = 2;
	fault.at_most = 3;
	exercise(backend, true);
	backend_file.close(backend);
}

static void file_continues_short_transfers(void **state)
{
	struct backend_config config = new_file("short", FILE_BYTES);
	struct backend *backend = must_open(&backend_file, &config);

	fault.short_bytes = 8 * BLOCK;
	write_and_read(backend, FILE_BYTES / N_IOS, false);
	fault.short_bytes = 1536; /* transfers of 512 if need be, and never less */
	write_and_read(backend, BLOCK, false);
	backend_file.close(backend);
}

static void file_end_is_an_error(void **state)
{
	struct backend_config config = new_file("end", 64 * BLOCK);
	struct backend *backend = must_open(&backend_file, &config);
	uint8_t *buffer = buffer_new(4 * BLOCK);
	struct backend_io io = {
		.op = BACKEND_READ, .offset = 62 * BLOCK, .length = 4 * BLOCK, .buffer = buffer};
	struct error refused;

	assert_int_equal(run(backend, io), -EIO); /* the file holds half of it */
	assert_int_equal(truncate(config.path, 62 * BLOCK), 0);
	assert_int_equal(run(backend, io), -EIO);
	assert_int_equal(backend_file.resize(backend, 0, &refused), 0);
	assert_int_equal(backend->limits.size_bytes, 62 * BLOCK);
	free(buffer);
	backend_file.close(backend);
}

static void file_without_dsync_syncs(void **state)
{
	struct backend_config config = new_file("dsync", FILE_BYTES);
	struct backend *backend = must_open(&backend_file, &config);

	fault.refuse_dsync = -EOPNOTSUPP;
	fault.refuse_flush = -EINVAL;
	exercise(backend, true);
	assert_true(fault.n_syncs >= N_IOS);
	backend_file.close(backend);
}

static void file_refused_iocb_fails_alone(void **state)
{
	struct backend_config config = new_file("refused", 64 * BLOCK);
	struct backend *backend = must_open(&backend_file, &config);
	uint8_t *buffer = buffer_new(BLOCK);
	struct test_io ios[8] = {0};

	fault.refuse_dsync = -EDQUOT;
	for (unsigned i = 0; i < 8; i++) {
		ios[i].io = (struct backend_io){.op = BACKEND_WRITE,
						.is_fua = i == 0 || i == 5,
						.offset = i * BLOCK,
						.length = BLOCK,
						.buffer = buffer};
		start(backend, &ios[i]);
	}
	for (unsigned i = 0; i < 8; i++) {
		finish(&ios[i]);
		assert_int_equal(ios[i].error, ios[i].io.is_fua ? -EDQUOT : 0);
	}
	free(buffer);
	backend_file.close(backend);
}

static void failed_sync_is_final(void **state)
{
	struct backend_config config = new_file("fsync", 64 * BLOCK);
	struct backend *backend = must_open(&backend_file, &config);
	uint8_t *buffer = buffer_new(BLOCK);
	struct backend_io io = {.op = BACKEND_WRITE, .length = BLOCK, .buffer = buffer};

	fault.refuse_flush = -EINVAL; /* so that it comes to fdatasync */
	assert_int_equal(run(backend, io), 0);
	fault.sync_error = EIO;
	assert_int_equal(flush(backend), -EIO);
	fault.sync_error = 0;
	assert_int_equal(flush(backend), -EIO);
	assert_int_equal(run(backend, io), -EIO);
	must_read(backend, 0, BLOCK, 0xee);
	free(buffer);
	backend_file.close(backend);
}

static void file_is_locked(void **state)
{
	struct backend_config config = new_file("locked", 64 * BLOCK);
	struct backend_config reader = config;
	struct backend *backend = must_open(&backend_file, &config), *second;
	uint64_t identity[2];
	struct error refused;

	reader.is_read_only = true;
	must_refuse(&backend_file, &config, -EBUSY, "exported already");
	must_refuse(&backend_file, &reader, -EBUSY, "exported already");
	/* another rblkd may run with --check meanwhile */
	assert_int_equal(backend_file.check(&config, identity, &refused), 0);
	assert_memory_equal(identity, backend->identity, sizeof(identity));
	must_refuse(&backend_file, &config, -EBUSY, "locked"); /* check released no lock */
	backend_file.close(backend);
	backend = must_open(&backend_file, &reader);
	second = must_open(&backend_file, &reader);
	assert_int_equal(change(second, BACKEND_WRITE_ZEROES, 0, BLOCK, false), -EROFS);
	backend_file.close(backend);
	backend_file.close(second);
}

/* The reported durability, VWC and the file system agree. */
static void file_says_how_durable_it_is(void **state)
{
	char shared[] = "/dev/shm/rblk-test.XXXXXX";
	struct backend_config config = new_file("durable", FILE_BYTES);
	struct backend *backend = must_open(&backend_file, &config);
	int fd = mkstemp(shared);
	struct statfs fs;

	assert_int_equal(statfs(config.path, &fs), 0);
	if (fs.f_type != TMPFS_MAGIC) {
		assert_true(backend->limits.has_volatile_cache);
		assert_true(backend->limits.durability == DURABILITY_FILE ||
			    backend->limits.durability == DURABILITY_PAGE_CACHE);
	}
	backend_file.close(backend);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	assert_int_equal(fstatfs(fd, &fs), 0);
	close(fd);
	config.path = shared;
	backend = must_open(&backend_file, &config);
	unlink(shared);
	assert_int_equal(backend->limits.has_volatile_cache, fs.f_type != TMPFS_MAGIC);
	assert_int_equal(backend->limits.durability == DURABILITY_TMPFS, fs.f_type == TMPFS_MAGIC);
	backend_file.close(backend);
}

static void file_is_created(void **state)
{
	struct backend_config config = {.path = path_of("made"),
					.block_size = 4096,
					.must_create = true,
					.size_bytes = 1 << 30};
	uint64_t identity[2];
	struct backend *backend;
	struct error refused;
	struct stat st;

	assert_int_equal(backend_file.check(&config, identity, &refused), 0);
	assert_int_equal(identity[0] | identity[1], 0);
	assert_int_equal(access(config.path, F_OK), -1); /* a check creates no file */
	backend = must_open(&backend_file, &config);
	assert_int_equal(stat(config.path, &st), 0);
	assert_int_equal(st.st_size, 1 << 30);
	assert_true(st.st_blocks < 64); /* sparse */
	assert_int_equal(st.st_mode & 0777, 0600);
	must_read(backend, 0, BLOCK, 0);
	assert_true(backend->is_created);
	backend_file.close(backend);
	config.size_bytes = 3 << 29;
	backend = must_open(&backend_file, &config);
	assert_false(backend->is_created);
	assert_int_equal(backend->limits.size_bytes, 3 << 29);
	must_read(backend, (uint64_t)(3 << 29) - BLOCK, BLOCK, 0);
	backend_file.close(backend);
	config.size_bytes = 1 << 20;
	must_refuse(&backend_file, &config, -EINVAL, "exists with 1536MiB, but size says 1MiB");
	assert_int_equal(backend_file.check(&config, identity, &refused), -EINVAL);
}

static void file_is_refused(void **state)
{
	struct backend_config config = new_file("odd", 4096 * 3 + 512);

	config.block_size = 4096;
	must_refuse(&backend_file, &config, -EINVAL,
		    "/odd: 12800 bytes is not a multiple of block_size 4096");
	config.path = path_of("nothing");
	must_refuse(&backend_file, &config, -ENOENT, "/nothing: no such file (create: true");
	config = new_file("empty", 0);
	must_refuse(&backend_file, &config, -EINVAL, "is empty");
	config.path = directory;
	must_refuse(&backend_file, &config, -EISDIR, "");
	config.path = "/dev/null";
	must_refuse(&backend_file, &config, -EINVAL, "not a regular file");
	config = new_file("real", 4096);
	assert_int_equal(symlink("real", path_of("link")), 0);
	config.path = path_of("link");
	must_refuse(&backend_file, &config, -ELOOP, "/real itself");
	assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
	config.path = path_of("pipe");
	must_refuse(&backend_file, &config, -EINVAL, "not a regular file");
	config.path = "/no/such/directory/file";
	config.must_create = true;
	config.size_bytes = 4096;
	must_refuse(&backend_file, &config, -ENOENT, "no such directory");
}

/* A file on a file system of its own; skips the test if it lacks the privilege to mount. */
static struct backend_config new_file_on(const char *type, const char *options, uint64_t size)
{
	assert_int_equal(mkdir(path_of("mnt"), 0700), 0);
	if (mount(type, path_of("mnt"), type, 0, options) < 0) {
		rmdir(path_of("mnt"));
		skip();
	}
	return new_file("mnt/disk", size);
}

static void unmount(void)
{
	assert_int_equal(umount(path_of("mnt")), 0);
	assert_int_equal(rmdir(path_of("mnt")), 0);
}

/* ramfs supports neither O_DIRECT nor holes, so worker threads write, zeroes too. */
static void file_without_direct(void **state)
{
	struct backend_config config = new_file_on("ramfs", NULL, FILE_BYTES);
	struct backend *backend = must_open(&backend_file, &config);

	assert_false(backend->limits.can_discard);
	exercise(backend, false);
	backend_file.close(backend);
	unmount();
}

/* Through the page cache, too, a read gives a block as one write left it. */
static void blocks_without_direct_are_whole(void **state)
{
	const unsigned bytes = 64 * 1024, n_rounds = 3000;
	struct backend_config config = new_file_on("ramfs", NULL, FILE_BYTES);
	struct backend *backend = must_open(&backend_file, &config);
	struct test_io writes[2], read;
	uint8_t *buffers[3] = {buffer_new(bytes), buffer_new(bytes), buffer_new(bytes)};
	unsigned n_torn = 0, n_changes = 0, last = 0;

	for (unsigned n = 0; n < n_rounds; n++) {
		for (unsigned i = 0; i < 2; i++) {
			memset(buffers[i], (int)(2 * n + i) & 0xff, bytes);
			writes[i].io = (struct backend_io){.op = n % 2 && i ? BACKEND_WRITE_ZEROES
									    : BACKEND_WRITE,
							   .length = bytes,
							   .buffer = buffers[i]};
		}
		read.io = (struct backend_io){
			.op = BACKEND_READ, .length = bytes, .buffer = buffers[2]};
		start(backend, &writes[0]);
		start(backend, &read);
		start(backend, &writes[1]);
		finish(&writes[0]);
		finish(&writes[1]);
		finish(&read);
		assert_int_equal(writes[0].error | writes[1].error | read.error, 0);
		for (unsigned at = 0; at < bytes; at += BLOCK)
			n_torn += memcmp(buffers[2] + at, buffers[2] + at + 1, BLOCK - 1) != 0;
		n_changes += buffers[2][0] != last;
		last = buffers[2][0];
	}
	if (n_torn)
		fail_msg("wrong data: %u blocks are torn", n_torn);
	assert_true(n_changes > n_rounds / 10);
	for (unsigned i = 0; i < 3; i++)
		free(buffers[i]);
	backend_file.close(backend);
	unmount();
}

/* Only writes beyond the space fail, and only until there is space again. */
static void full_file_system_is_told(void **state)
{
	struct backend_config config = new_file_on("tmpfs", "size=64k", 256 * 1024);
	struct backend *backend = must_open(&backend_file, &config);
	uint8_t *buffer = buffer_new(64 * 1024);
	struct backend_io io = {.op = BACKEND_WRITE, .length = 64 * 1024, .buffer = buffer};

	assert_int_equal(run(backend, io), 0);
	io.offset = 128 * 1024;
	assert_int_equal(run(backend, io), -ENOSPC);
	must_read(backend, 0, 64 * 1024, 0xee);
	assert_int_equal(change(backend, BACKEND_DISCARD, 0, 64 * 1024, false), 0);
	assert_int_equal(run(backend, io), 0);
	must_read(backend, 128 * 1024, 64 * 1024, 0xee);
	assert_int_equal(flush(backend), 0);
	free(buffer);
	backend_file.close(backend);
	unmount();
}

/* ---- memory and nothing --------------------------------------------------------------------- */

static void ram_does_all(void **state)
{
	struct backend_config config = {.size_bytes = FILE_BYTES, .block_size = 512};
	struct backend *backend = must_open(&backend_ram, &config);
	uint8_t *memory = backend_ram.memory(backend);
	unsigned char present[FILE_BYTES / BLOCK];

	assert_non_null(memory);
	assert_false(backend->limits.has_volatile_cache);
	exercise(backend, true);
	/* A discard frees no page: the pages are registered. */
	assert_int_equal(mincore(memory, FILE_BYTES, present), 0);
	for (unsigned i = 0; i < FILE_BYTES / BLOCK; i++)
		assert_int_equal(present[i] & 1, 1);
	assert_int_equal(change(backend, BACKEND_WRITE_ZEROES, FILE_BYTES, 512, false), -EIO);
	backend_ram.close(backend);
}

static void ram_grows_where_it_is(void **state)
{
	struct backend_config config = {.size_bytes = 4096 + 512, .block_size = 512};
	struct backend *backend = must_open(&backend_ram, &config);
	uint8_t *memory = backend_ram.memory(backend);
	struct error refused;

	memset(memory, 0x5a, 4096 + 512);
	assert_int_equal(backend_ram.resize(backend, 4096, &refused), -EINVAL);
	assert_int_equal(backend_ram.resize(backend, 1 << 20, &refused), -EINVAL);
	assert_non_null(strstr(refused.message, "16 times"));
	assert_int_equal(backend->limits.size_bytes, 4096 + 512);
	assert_int_equal(backend_ram.resize(backend, 65536, &refused), 0);
	assert_ptr_equal(backend_ram.memory(backend), memory);
	assert_int_equal(backend->limits.size_bytes, 65536);
	must_read(backend, 0, 4096 + 512, 0x5a);
	must_read(backend, 4096 + 512, 65536 - 4096 - 512, 0);
	exercise(backend, true);
	backend_ram.close(backend);
}

static void ram_is_refused(void **state)
{
	struct backend_config config = {.size_bytes = 4096 + 512, .block_size = 4096};

	must_refuse(&backend_ram, &config, -EINVAL, "not a multiple");
	config.size_bytes = 1ULL << 50;
	must_refuse(&backend_ram, &config, -ENOMEM, "more memory than");
}

static void null_reads_zeroes(void **state)
{
	struct backend_config config = {.size_bytes = FILE_BYTES, .block_size = 512};
	struct backend *backend = must_open(&backend_null, &config);

	write_all(backend, 1);
	must_read(backend, 0, 4096, 0);
	backend_null.close(backend);
}

/* ---- devices -------------------------------------------------------------------------------- */

/* A loop device on a new file; skips the test if the machine has none. */
static void open_loop(char ret_path[64], const char *options)
{
	struct backend_config config = new_file("disk", FILE_BYTES);
	char command[256];
	FILE *pipe;

	snprintf(command, sizeof(command), "losetup -f --show %s %s 2>/dev/null", options,
		 config.path);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	if (!fgets(ret_path, 64, pipe))
		ret_path[0] = '\0';
	pclose(pipe);
	if (!ret_path[0])
		skip();
	ret_path[strcspn(ret_path, "\n")] = '\0';
}

static void close_loop(const char *path)
{
	char command[128];

	snprintf(command, sizeof(command), "losetup -d %s", path);
	assert_int_equal(system(command), 0);
}

static void device_does_all(void **state)
{
	struct backend_config config = {.block_size = 512};
	struct backend_config as_file;
	struct backend *backend;
	uint64_t identity[2];
	char path[64];
	struct error refused;

	open_loop(path, "");
	config.path = path;
	backend = must_open(&backend_device, &config);
	assert_int_equal(backend->limits.size_bytes, FILE_BYTES);
	exercise(backend, false);
	must_refuse(&backend_device, &config, -EBUSY, "is in use: mounted");
	assert_int_equal(backend_device.check(&config, identity, &refused), 0);
	assert_memory_equal(identity, backend->identity, sizeof(identity));
	as_file = config;
	must_refuse(&backend_file, &as_file, -EINVAL, "use 'device' instead");
	backend_device.close(backend);
	close_loop(path);
	as_file = new_file("regular", 4096);
	must_refuse(&backend_device, &as_file, -ENOTBLK, "use 'file' instead");
	config.path = "/dev/no-such-disk";
	must_refuse(&backend_device, &config, -ENOENT, "no such device");
}

static void device_has_sectors(void **state)
{
	struct backend_config config = {.block_size = 512};
	struct backend *backend;
	char path[64];

	open_loop(path, "-b 4096 -r");
	config.path = path;
	must_refuse(&backend_device, &config, -EROFS, "set read_only: true");
	config.is_read_only = true;
	must_refuse(&backend_device, &config, -EINVAL, "set block_size: 4096");
	config.block_size = 4096;
	backend = must_open(&backend_device, &config);
	assert_int_equal(backend->limits.min_block, 4096);
	assert_int_equal(change(backend, BACKEND_DISCARD, 0, BLOCK, false), -EROFS);
	must_read(backend, 0, BLOCK, 0);
	backend_device.close(backend);
	close_loop(path);
}

int main(void)
{
#define WITH(set_up, test)                                                                         \
	{                                                                                          \
#		test " (" #		   set_up ")", test, set_up, tear_down, NULL              \
	}
	const struct CMUnitTest tests[] = {
		WITH(set_up_aio, file_does_all),
		WITH(set_up_pool, file_does_all),
		WITH(set_up_aio, file_survives_full_queue),
		WITH(set_up_aio, file_continues_short_transfers),
		WITH(set_up_aio, file_end_is_an_error),
		WITH(set_up_pool, file_end_is_an_error),
		WITH(set_up_aio, file_without_dsync_syncs),
		WITH(set_up_aio, file_refused_iocb_fails_alone),
		WITH(set_up_aio, failed_sync_is_final),
		WITH(set_up_pool, failed_sync_is_final),
		WITH(set_up_aio, file_is_locked),
		WITH(set_up_aio, file_says_how_durable_it_is),
		WITH(set_up_aio, file_is_created),
		WITH(set_up_aio, file_is_refused),
		WITH(set_up_aio, file_without_direct),
		WITH(set_up_aio, blocks_without_direct_are_whole),
		WITH(set_up_aio, full_file_system_is_told),
		WITH(set_up_pool, full_file_system_is_told),
		WITH(set_up_aio, ram_does_all),
		WITH(set_up_aio, ram_grows_where_it_is),
		WITH(set_up_aio, ram_is_refused),
		WITH(set_up_aio, null_reads_zeroes),
		WITH(set_up_aio, device_does_all),
		WITH(set_up_pool, device_does_all),
		WITH(set_up_aio, device_has_sectors),
	};
	char command[128];
	int n_failed;

	log_init("test_backend", LOG_ERR);
	if (!mkdtemp(directory))
		return 1;
	n_failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command) || n_failed;
}
