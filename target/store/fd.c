/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/O on the file descriptor of a file or a block device.
 *
 *   read, write         libaio with O_DIRECT; without, a worker thread
 *   flush               libaio (IO_CMD_FDSYNC), or fdatasync on a worker thread
 *   FUA                 RWF_DSYNC with the write; if unsupported, a write, then a sync
 *   zeroes, discard     a worker thread: zero and discard of file.c and
 *                       device.c; if unsupported, zeroes are written
 *
 * An io is a chain of at most two steps (thread.h): each then decides what follows.
 *
 * When a sync fails, the kernel has dropped what it could not write, and a second sync would
 * succeed although acknowledged data is gone. So the first failure is final: from then on every
 * write and flush of this backend fails, until rblkd is started again (fault F9). Reads continue.
 * An RWF_DSYNC write is a write and a sync, and the kernel does not report which of the two failed.
 * It counts as a sync, except for errors that only the write can have, which comes first.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "target/store/aio.h"
#include "target/store/fd.h"
#include "target/store/pool.h"
#include "target/store/region.h"
#include "target/store/step.h"

enum {
	ZEROES_BYTES = 1024 * 1024,
	PAGE_BYTES = 4096,
};

/* Never written, so it uses no memory until it is read. */
static _Alignas(PAGE_BYTES) uint8_t zeroes[ZEROES_BYTES];

static struct backend_fd *disk_of(struct backend *backend)
{
	return container_of(backend, struct backend_fd, backend);
}

/* ---- on a worker thread ------------------------------------------------------------ */

static int sync_data(struct backend_fd *disk)
{
	return fdatasync(disk->fd) < 0 ? -errno : 0;
}

enum {
	SHORT = 1, /* of transfer: not an error, but the store has no more */
};

/* Transfers all n bytes; otherwise an error or SHORT. It repeats short transfers. */
static int transfer(int fd, bool is_write, void *buffer, uint64_t n, uint64_t offset, int flags)
{
	while (n) {
		struct iovec iov = {.iov_base = buffer, .iov_len = n};
		ssize_t r = is_write ? pwritev2(fd, &iov, 1, (off_t)offset, flags)
				     : preadv2(fd, &iov, 1, (off_t)offset, 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			return SHORT; /* the end of the file */
		buffer = (char *)buffer + r;
		n -= (uint64_t)r;
		offset += (uint64_t)r;
	}
	return 0;
}

static int transfer_io(struct backend_io *io, int flags)
{
	int r = transfer(disk_of(io->backend)->fd, io->op == BACKEND_WRITE, io->buffer, io->length,
			 io->offset, flags);

	io->is_short = r == SHORT;
	return io->is_short ? -EIO : r;
}

static int work_transfer(struct backend_io *io)
{
	struct regions *regions = disk_of(io->backend)->regions;
	int r;

	regions_lock(regions, io->offset, io->length, io->op == BACKEND_WRITE);
	r = transfer_io(io, 0);
	regions_unlock(regions, io->offset, io->length);
	return r;
}

/* The work of an aio step, on a worker thread. */
static int work_when_full(struct backend_io *io)
{
	return transfer_io(io, backend_step(io)->is_dsync ? RWF_DSYNC : 0);
}

static int work_sync(struct backend_io *io)
{
	return sync_data(disk_of(io->backend));
}

/* The regions are locked piece by piece, so that a long command does not hold up others. */
static int write_zeroes(struct backend_fd *disk, uint64_t offset, uint64_t n)
{
	int r = 0;

	while (n && r == 0) {
		uint64_t n_now = MIN(n, (uint64_t)ZEROES_BYTES);

		regions_lock(disk->regions, offset, n_now, true);
		r = transfer(disk->fd, true, zeroes, n_now, offset, 0);
		regions_unlock(disk->regions, offset, n_now);
		offset += n_now;
		n -= n_now;
	}
	return r == SHORT ? -EIO : r;
}

static int work_zero(struct backend_io *io)
{
	struct backend_fd *disk = disk_of(io->backend);
	int r;

	regions_lock(disk->regions, io->offset, io->length, true);
	r = disk->zero(disk, io->offset, io->length, io->may_unmap);
	regions_unlock(disk->regions, io->offset, io->length);
	return r == -EOPNOTSUPP ? write_zeroes(disk, io->offset, io->length) : r;
}

/* Advice: what cannot be discarded stays. */
static int work_discard(struct backend_io *io)
{
	struct backend_fd *disk = disk_of(io->backend);
	int r;

	regions_lock(disk->regions, io->offset, io->length, true);
	r = disk->discard(disk, io->offset, io->length);
	regions_unlock(disk->regions, io->offset, io->length);
	return r == -EOPNOTSUPP ? 0 : r;
}

/* ---- steps, on the poller ---------------------------------------------------------- */

static void after_sync(struct backend_io *io, int error)
{
	if (error)
		atomic_store(&io->backend->has_failed, true);
	backend_done(io, error);
}

static bool has_aio(struct backend_io *io)
{
	return disk_of(io->backend)->is_direct && backend_step(io)->thread->aio;
}

/* Some file systems have no asynchronous sync. */
static void after_aio_sync(struct backend_io *io, int error)
{
	struct backend_fd *disk = disk_of(io->backend);

	if (error == -EINVAL || error == -EOPNOTSUPP || error == -ENOSYS) {
		atomic_store(&disk->lacks_aio_sync, true);
		backend_step(io)->then = after_sync;
		backend_pool_start(io, work_sync);
		return;
	}
	after_sync(io, error);
}

static void start_sync(struct backend_io *io)
{
	struct backend_fd *disk = disk_of(io->backend);

	if (has_aio(io) && !atomic_load(&disk->lacks_aio_sync)) {
		backend_step(io)->then = after_aio_sync;
		backend_aio_start(io, BACKEND_FLUSH, false, disk->fd, 1, NULL);
	} else {
		backend_step(io)->then = after_sync;
		backend_pool_start(io, work_sync);
	}
}

static void after_change(struct backend_io *io, int error)
{
	if (error || !io->is_fua)
		backend_done(io, error);
	else
		start_sync(io);
}

static void start_write(struct backend_io *io);

/* Errors of the write itself, before any sync. With O_DIRECT the write allocates blocks, so a full
 * file system is no failed sync, either. */
static bool is_of_write_alone(int error)
{
	switch (-error) {
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case EINVAL:
	case EAGAIN:
	case ENOMEM:
	case EPERM:
	case ETXTBSY:
		return true;
	default:
		return false;
	}
}

/* The write is the only step if the kernel supports RWF_DSYNC. */
static void after_dsync_write(struct backend_io *io, int error)
{
	if (error == -EOPNOTSUPP) {
		atomic_store(&disk_of(io->backend)->lacks_dsync, true);
		start_write(io);
		return;
	}
	if (error && !is_of_write_alone(error))
		atomic_store(&io->backend->has_failed, true);
	backend_done(io, error);
}

static int (*if_full(const struct backend_fd *disk))(struct backend_io *io)
{
	return disk->can_be_full ? work_when_full : NULL;
}

static void start_read(struct backend_io *io)
{
	struct backend_fd *disk = disk_of(io->backend);

	backend_step(io)->then = backend_done;
	if (has_aio(io))
		backend_aio_start(io, BACKEND_READ, false, disk->fd, disk->backend.limits.min_block,
				  if_full(disk));
	else
		backend_pool_start(io, work_transfer);
}

static void start_write(struct backend_io *io)
{
	struct backend_fd *disk = disk_of(io->backend);
	bool is_dsync = io->is_fua && !atomic_load(&disk->lacks_dsync);

	backend_step(io)->then = after_change;
	if (!has_aio(io)) {
		backend_pool_start(io, work_transfer);
		return;
	}
	if (is_dsync)
		backend_step(io)->then = after_dsync_write;
	backend_aio_start(io, BACKEND_WRITE, is_dsync, disk->fd, disk->backend.limits.min_block,
			  if_full(disk));
}

static void start_on_pool(struct backend_io *io, int (*work)(struct backend_io *io))
{
	backend_step(io)->then = after_change;
	backend_pool_start(io, work);
}

static int refuse_change(const struct backend_fd *disk, const struct backend_io *io)
{
	if (io->op == BACKEND_READ)
		return 0;
	if (atomic_load(&disk->backend.has_failed))
		return -EIO;
	return disk->backend.limits.is_read_only && io->op != BACKEND_FLUSH ? -EROFS : 0;
}

void backend_fd_submit(struct backend *backend, struct backend_thread *thread,
		       struct backend_io *io)
{
	struct backend_fd *disk = disk_of(backend);
	int r;

	backend_take(backend, thread, io);
	r = refuse_change(disk, io);
	if (r < 0 || !(io->length || io->op == BACKEND_FLUSH)) {
		backend_skip(io, r);
		return;
	}
	switch (io->op) {
	case BACKEND_READ:
		start_read(io);
		return;
	case BACKEND_WRITE:
		start_write(io);
		return;
	case BACKEND_FLUSH:
		start_sync(io);
		return;
	case BACKEND_WRITE_ZEROES:
		start_on_pool(io, work_zero);
		return;
	case BACKEND_DISCARD:
		start_on_pool(io, work_discard);
		return;
	case BACKEND_N_OPS:
		break;
	}
	check(!"an operation");
}

/* ---- opening ----------------------------------------------------------------------- */

struct backend_fd *backend_fd_new(const struct backend_ops *ops, const char *path)
{
	struct backend_fd *disk = calloc(1, sizeof(*disk));

	if (!disk)
		return NULL;
	disk->backend.ops = ops;
	disk->fd = -1;
	disk->path = strdup(path);
	if (!disk->path) {
		free(disk);
		return NULL;
	}
	return disk;
}

void backend_fd_close(struct backend *backend)
{
	struct backend_fd *disk;

	if (!backend)
		return;
	disk = disk_of(backend);
	if (disk->fd >= 0)
		close(disk->fd);
	regions_free(disk->regions);
	free(disk->path);
	free(disk);
}

int backend_fd_open(const char *path, int flags, bool must_not_follow)
{
	struct open_how how = {.mode = flags & O_CREAT ? 0600 : 0};
	long fd;

	flags |= O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY);
	how.flags = (uint64_t)flags;
	how.resolve = RESOLVE_NO_MAGICLINKS | (must_not_follow ? RESOLVE_NO_SYMLINKS : 0);
	fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	if (fd < 0 && errno == ENOSYS) /* a system call filter older than openat2 */
		fd = open(path, flags | (must_not_follow ? O_NOFOLLOW : 0), 0600);
	return fd < 0 ? -errno : (int)fd;
}

static bool can_read_direct(int fd, uint32_t n)
{
	static _Thread_local _Alignas(PAGE_BYTES) uint8_t page[PAGE_BYTES];

	return pread(fd, page, n, 0) >= 0;
}

uint32_t backend_fd_direct_align(int fd)
{
#ifdef STATX_DIOALIGN
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 &&
	    st.stx_mask & STATX_DIOALIGN) {
		if (!st.stx_dio_offset_align || st.stx_dio_mem_align > PAGE_BYTES)
			return 0;
		return MAX(st.stx_dio_offset_align, 512U);
	}
#endif
	return can_read_direct(fd, 512) ? 512 : can_read_direct(fd, PAGE_BYTES) ? PAGE_BYTES : 0;
}

int backend_fd_refuse(const struct backend_config *config, int r, struct error *error,
		      const char *fmt, ...)
{
	char what[ERROR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return error_refuse(error, r, "%s: %s", config->path, what);
}

int backend_fd_check_size(const struct backend_config *config, uint64_t size, struct error *error)
{
	if (!size)
		return backend_fd_refuse(config, -EINVAL, error, "is empty");
	if (size % config->block_size)
		return backend_fd_refuse(config, -EINVAL, error,
					 "%" PRIu64 " bytes is not a multiple of block_size %u",
					 size, config->block_size);
	return 0;
}
