/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regular files. Opened without following symbolic links, and switched to O_DIRECT if the file
 * system allows it. An open file description lock covers the whole file while it is exported: no
 * second namespace of this rblkd, and no other rblkd unless both share the file, can have it for
 * writing.
 *
 * With create, a missing file is created sparse, at its size; a smaller one grows to it; a larger
 * one is refused, because rblkd never truncates.
 *
 * Zeroes: a hole if the host allows one, otherwise FALLOC_FL_ZERO_RANGE, which keeps the space;
 * fd.c writes them if the file system supports neither. A discard is a hole. Holes read as zero.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/conf_schema.h"
#include "base/log.h"
#include "base/units.h"
#include "target/store/backends.h"
#include "target/store/fd.h"
#include "target/store/region.h"
#include "target/store/grow.h"
#include "target/store/map.h"

enum {
	HOLE_BYTES = 4096,
};

static int change_range(struct backend_fd *disk, int mode, uint64_t offset, uint64_t n)
{
	int r;

	do
		r = fallocate(disk->fd, mode | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)n);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return errno == ENOSYS || errno == EINVAL ? -EOPNOTSUPP : -errno;
	return 0;
}

static int zero_range(struct backend_fd *disk, uint64_t offset, uint64_t n, bool may_unmap)
{
	int r = -EOPNOTSUPP;

	if (may_unmap)
		r = change_range(disk, FALLOC_FL_PUNCH_HOLE, offset, n);
	return r == -EOPNOTSUPP ? change_range(disk, FALLOC_FL_ZERO_RANGE, offset, n) : r;
}

static int discard_range(struct backend_fd *disk, uint64_t offset, uint64_t n)
{
	return change_range(disk, FALLOC_FL_PUNCH_HOLE, offset, n);
}

/* ---- holes -------------------------------------------------------------------------- */

/* The next data of the file from at on. end: there is none before it, as far as the file goes. */
static int64_t next_data(const struct backend_fd *disk, uint64_t at, uint64_t end)
{
	off_t data = lseek(disk->fd, (off_t)at, SEEK_DATA);

	if (data >= 0)
		return (int64_t)MIN((uint64_t)data, end);
	if (errno != ENXIO)
		return -errno;
	data = lseek(disk->fd, 0, SEEK_END); /* another program may have cut it: no zeroes there */
	return data >= 0 && (uint64_t)data >= end ? (int64_t)end : -EIO;
}

/* Seeking moves the descriptor's position, which no I/O of this backend uses. A file that changes
 * meanwhile gives ranges that were true in turn: data that has become a hole costs a look. */
static int file_map(struct backend *backend, uint64_t offset, uint64_t length,
		    struct backend_map *map)
{
	const struct backend_fd *disk = container_of(backend, struct backend_fd, backend);
	uint64_t end = offset + length;

	map->end = offset;
	for (unsigned i = 0; i < BACKEND_MAP_RANGES && map->end < end; i++) {
		int64_t data = next_data(disk, map->end, end);
		off_t hole;

		if (data < 0)
			return (int)data;
		map->end = (uint64_t)data;
		if (map->end == end)
			break;
		hole = lseek(disk->fd, (off_t)data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		if (hole > data) {
			map->end = MIN((uint64_t)hole, end);
			backend_map_add(map, (uint64_t)data, map->end);
		}
	}
	return 0;
}

/* ---- opening ----------------------------------------------------------------------- */

static int explain_open(const struct backend_config *config, int r, struct error *error)
{
	char real[PATH_MAX];

	switch (r) {
	case -ENOENT:
		return backend_fd_refuse(config, r, error,
					 "no such file (create: true with a size makes it)");
	case -ELOOP:
		if (!realpath(config->path, real))
			strcpy(real, "the file");
		return backend_fd_refuse(config, r, error,
					 "has a symbolic link in its path; name %s itself", real);
	case -EACCES:
	case -EPERM:
		return backend_fd_refuse(config, r, error, "not allowed to %s it as user %u: %s",
					 config->is_read_only ? "read" : "read and write",
					 geteuid(), strerror(-r));
	default:
		return backend_fd_refuse(config, r, error, "cannot open it: %s", strerror(-r));
	}
}

static int check_kind(const struct backend_config *config, const struct stat *st,
		      struct error *error)
{
	if (S_ISREG(st->st_mode))
		return 0;
	if (S_ISBLK(st->st_mode))
		return backend_fd_refuse(config, -EINVAL, error,
					 "is a block device; use 'device' instead of 'file'");
	return backend_fd_refuse(config, -EINVAL, error, "is %s, not a regular file",
				 S_ISDIR(st->st_mode) ? "a directory" : "something else");
}

/* An existing file. */
static int check_stat(const struct backend_config *config, const struct stat *st,
		      struct error *error)
{
	uint64_t size = (uint64_t)st->st_size;
	char is[UNITS_MAX], wanted[UNITS_MAX];
	int r = check_kind(config, st, error);

	if (r < 0)
		return r;
	units_format_exact(is, size);
	units_format_exact(wanted, config->size_bytes);
	if (config->must_create && size > config->size_bytes)
		return backend_fd_refuse(
			config, -EINVAL, error,
			"exists with %s, but size says %s: no file is cut; set size: %s to export all of it",
			is, wanted, is);
	return backend_fd_check_size(config, size, error);
}

static int sync_directory(const char *path)
{
	_autofree_ char *copy = strdup(path);
	_autoclose_ int fd = -1;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* -EEXIST if another program created it meanwhile. */
static int create_file(const struct backend_config *config, struct error *error)
{
	int fd = backend_fd_open(config->path, O_RDWR | O_CREAT | O_EXCL, true);
	int r = 0;

	if (fd == -EEXIST)
		return fd;
	if (fd == -ENOENT)
		return backend_fd_refuse(config, fd, error, "cannot create it: no such directory");
	if (fd < 0)
		return explain_open(config, fd, error);
	if (ftruncate(fd, (off_t)config->size_bytes) < 0 || fsync(fd) < 0)
		r = -errno;
	if (r == 0)
		r = sync_directory(config->path);
	if (r < 0) {
		unlink(config->path);
		close(fd);
		return backend_fd_refuse(config, r, error, "cannot create it: %s", strerror(-r));
	}
	log_info("%s: created", config->path);
	return fd;
}

static int open_file(const struct backend_config *config, bool *ret_is_created, struct error *error)
{
	int flags = config->is_read_only ? O_RDONLY : O_RDWR;
	/* O_NONBLOCK: if it is a pipe, open must not wait. */
	int fd = backend_fd_open(config->path, flags | O_NONBLOCK, true);

	if (fd == -ENOENT && config->must_create) {
		fd = create_file(config, error);
		*ret_is_created = fd >= 0;
		if (fd != -EEXIST)
			return fd;
		fd = backend_fd_open(config->path, flags | O_NONBLOCK, true);
	}
	return fd < 0 ? explain_open(config, fd, error) : fd;
}

static int lock_file(struct backend_fd *disk, const struct backend_config *config,
		     struct error *error)
{
	struct flock lock = {
		.l_type = config->is_read_only || config->is_shared ? F_RDLCK : F_WRLCK,
		.l_whence = SEEK_SET,
	};

	if (fcntl(disk->fd, F_OFD_SETLK, &lock) == 0) {
		disk->backend.limits.others = lock.l_type == F_WRLCK ? OTHERS_FAR : OTHERS_ANY;
		return 0;
	}
	if (errno == EAGAIN || errno == EACCES)
		return backend_fd_refuse(
			config, -EBUSY, error,
			"is in use: exported already, or locked by another program (lslocks shows which)");
	log_warn("%s: cannot be locked against other programs: %s", disk->path, strerror(errno));
	return 0;
}

static int set_direct(struct backend_fd *disk, const struct backend_config *config,
		      struct error *error)
{
	int flags = fcntl(disk->fd, F_GETFL) & ~O_NONBLOCK;
	uint32_t align = 0;

	if (fcntl(disk->fd, F_SETFL, flags | O_DIRECT) == 0)
		align = backend_fd_direct_align(disk->fd);
	if (!align && fcntl(disk->fd, F_SETFL, flags & ~O_DIRECT) < 0)
		return backend_fd_refuse(config, -errno, error, "fcntl: %s", strerror(errno));
	if (align > config->block_size)
		return backend_fd_refuse(
			config, -EINVAL, error,
			"its file system needs I/O in units of %u bytes; set block_size: %u", align,
			align);
	disk->is_direct = align > 0;
	disk->backend.limits.min_block = align ? align : 512;
	return 0;
}

/* A file in memory has no other copy: no flush makes it safer. */
static enum backend_durability find_durability(const struct backend_fd *disk)
{
	struct statfs fs;

	if (fstatfs(disk->fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC))
		return DURABILITY_TMPFS;
	return disk->is_direct ? DURABILITY_FILE : DURABILITY_PAGE_CACHE;
}

/* The largest offset that the file system supports for the file. Seeking only moves the
 * descriptor's position, which no I/O of this backend uses. */
static uint64_t max_offset(const struct backend_fd *disk)
{
	uint64_t low = 0, high = INT64_MAX;

	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;

		if (lseek(disk->fd, (off_t)middle, SEEK_SET) < 0)
			high = middle - 1;
		else
			low = middle;
	}
	return low;
}

/*
 * Whether the file system can make holes: makes one in the last block that the file could ever
 * have. Directly behind the end another rblkd may have grown the file, and its host may have
 * written there; or another program may have allocated space ahead.
 */
static bool can_have_holes(struct backend_fd *disk, const struct stat *st)
{
	uint64_t n = MAX((uint64_t)st->st_blksize, (uint64_t)HOLE_BYTES);
	uint64_t last = max_offset(disk) / n;

	return last > 1 && (last - 1) * n > (uint64_t)st->st_size &&
	       discard_range(disk, (last - 1) * n, n) == 0;
}

static void fill_limits(struct backend_fd *disk, const struct backend_config *config,
			const struct stat *st)
{
	struct backend_limits *limits = &disk->backend.limits;

	limits->size_bytes = (uint64_t)st->st_size;
	limits->physical_block = (uint32_t)st->st_blksize;
	limits->is_read_only = config->is_read_only;
	limits->durability = find_durability(disk);
	limits->has_volatile_cache = limits->durability != DURABILITY_TMPFS;
	limits->can_discard = !config->is_read_only && can_have_holes(disk, st);
	limits->discard_reads_zero = true; /* holes do, also those of a read-only file */
	limits->can_write_zeroes = limits->can_discard;
}

/* The new size must be on disk before a host is notified of it. */
static int grow(struct backend_fd *disk, const struct backend_config *config, uint64_t old_size,
		uint64_t size, struct error *error)
{
	char wanted[UNITS_MAX];
	int r;

	if (config->is_read_only)
		return backend_fd_refuse(config, -EROFS, error,
					 "is exported read_only: it cannot be grown here");
	if (ftruncate(disk->fd, (off_t)size) < 0)
		return backend_fd_refuse(config, -errno, error, "cannot grow to %s: %s",
					 units_format_exact(wanted, size), strerror(errno));
	disk->backend.grown_from = old_size;
	disk->backend.grown_to = size;
	if (fsync(disk->fd) == 0)
		return 0;
	r = -errno;
	/* The kernel reports a failed sync once, and this may be that of a host's writes. */
	atomic_store(&disk->backend.has_failed, true);
	return backend_fd_refuse(config, r, error, "cannot sync it: %s", strerror(-r));
}

static int file_undo_grow(struct backend *backend, struct error *error)
{
	struct backend_fd *disk = container_of(backend, struct backend_fd, backend);
	const struct backend_config config = {.path = disk->path};
	char is[UNITS_MAX];
	struct stat st;
	int r;

	units_format_exact(is, backend->grown_to);
	if (disk->is_shared)
		return backend_fd_refuse(&config, -EBUSY, error,
					 "stays %s: others that share it may have seen that", is);
	if (fstat(disk->fd, &st) < 0)
		return backend_fd_refuse(&config, -errno, error, "stays %s: %s", is,
					 strerror(errno));
	if ((uint64_t)st.st_size != backend->grown_to)
		return backend_fd_refuse(&config, -EBUSY, error,
					 "keeps its size, which another program has changed");
	r = ftruncate(disk->fd, (off_t)backend->grown_from) < 0 ? -errno : 0;
	if (r < 0)
		return backend_fd_refuse(&config, r, error, "stays %s: %s", is, strerror(-r));
	backend->limits.size_bytes = backend->grown_from;
	return 0;
}

static int prepare(struct backend_fd *disk, const struct backend_config *config,
		   struct error *error)
{
	struct stat st;
	int r;

	if (fstat(disk->fd, &st) < 0)
		return backend_fd_refuse(config, -errno, error, "%s", strerror(errno));
	r = check_stat(config, &st, error);
	if (r == 0)
		r = lock_file(disk, config, error);
	if (r == 0)
		r = set_direct(disk, config, error);
	if (r == 0 && !disk->is_direct) {
		disk->regions = regions_new();
		r = disk->regions ? 0 : backend_fd_refuse(config, -ENOMEM, error, "out of memory");
	}
	if (r == 0 && config->must_create && config->size_bytes > (uint64_t)st.st_size)
		r = grow(disk, config, (uint64_t)st.st_size, config->size_bytes, error);
	if (r < 0)
		return r;
	if (fstat(disk->fd, &st) < 0)
		return backend_fd_refuse(config, -errno, error, "%s", strerror(errno));
	disk->backend.identity[0] = st.st_dev;
	disk->backend.identity[1] = st.st_ino;
	fill_limits(disk, config, &st);
	return 0;
}

static int file_open(const struct backend_config *config, struct backend **ret_backend,
		     struct error *error)
{
	struct backend_fd *disk = backend_fd_new(&backend_file, config->path);
	int r;

	if (!disk)
		return backend_fd_refuse(config, -ENOMEM, error, "out of memory");
	disk->zero = zero_range;
	disk->discard = discard_range;
	r = disk->fd = open_file(config, &disk->backend.is_created, error);
	disk->is_shared = config->is_shared;
	if (r >= 0)
		r = prepare(disk, config, error);
	if (r < 0) {
		backend_undo_grow(&disk->backend);
		backend_fd_close(&disk->backend);
		return r;
	}
	if (!disk->is_direct)
		log_info("%s: no O_DIRECT here: I/O goes through the page cache", disk->path);
	*ret_backend = &disk->backend;
	return 0;
}

/* ---- checking without opening ------------------------------------------------------ */

static int check_directory(const struct backend_config *config, struct error *error)
{
	_autofree_ char *copy = strdup(config->path);
	const char *directory = copy ? dirname(copy) : "/";

	if (!config->must_create)
		return explain_open(config, -ENOENT, error);
	if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) < 0)
		return backend_fd_refuse(config, -errno, error, "cannot create it in %s: %s",
					 directory, strerror(errno));
	return 0;
}

static int file_check(const struct backend_config *config, uint64_t ret_identity[2],
		      struct error *error)
{
	int mode = config->is_read_only ? R_OK : R_OK | W_OK;
	_autoclose_ int fd = backend_fd_open(config->path, O_PATH, true);
	struct stat st;

	ret_identity[0] = ret_identity[1] = 0;
	if (fd == -ENOENT)
		return check_directory(config, error);
	if (fd < 0)
		return explain_open(config, fd, error);
	if (fstat(fd, &st) < 0)
		return explain_open(config, -errno, error);
	ret_identity[0] = st.st_dev;
	ret_identity[1] = st.st_ino;
	if (S_ISREG(st.st_mode) && faccessat(AT_FDCWD, config->path, mode, AT_EACCESS) < 0)
		return explain_open(config, -errno, error);
	return check_stat(config, &st, error);
}

static int file_look(const struct backend_config *config, struct backend_limits *ret_limits,
		     struct error *error)
{
	_autoclose_ int fd = backend_fd_open(config->path, O_PATH, true);
	struct stat st;
	int r;

	ret_limits->min_block = 512;
	ret_limits->size_bytes = config->size_bytes; /* as its first owner makes it */
	if (fd == -ENOENT)
		return check_directory(config, error);
	if (fd < 0 || fstat(fd, &st) < 0)
		return explain_open(config, fd < 0 ? fd : -errno, error);
	r = check_stat(config, &st, error);
	ret_limits->size_bytes = MAX((uint64_t)st.st_size, config->size_bytes);
	ret_limits->physical_block = (uint32_t)st.st_blksize;
	return r;
}

/* ---- a new size -------------------------------------------------------------------- */

static int file_resize(struct backend *backend, uint64_t size_bytes, struct error *error)
{
	struct backend_fd *disk = container_of(backend, struct backend_fd, backend);
	const struct backend_config config = {.path = disk->path,
					      .is_read_only = backend->limits.is_read_only};
	char has[UNITS_MAX];
	struct stat st;
	int r = 0;

	if (fstat(disk->fd, &st) < 0)
		return backend_fd_refuse(&config, -errno, error, "%s", strerror(errno));
	if (size_bytes > (uint64_t)st.st_size)
		r = grow(disk, &config, (uint64_t)st.st_size, size_bytes, error);
	else if (size_bytes && size_bytes < (uint64_t)st.st_size)
		r = backend_fd_refuse(
			&config, -EINVAL, error,
			"has %s: rblkd cuts no file; truncate it yourself, then resize without a size",
			units_format_exact(has, (uint64_t)st.st_size));
	if (r < 0)
		return r;
	backend->limits.size_bytes = MAX(size_bytes, (uint64_t)st.st_size);
	return 0;
}

const struct backend_ops backend_file = {
	.name = "file",
	.key = {.type = CONF_STRING,
		.max = PATH_MAX - 1,
		.check = conf_check_path,
		.help = "Serves this regular file."},
	.can_create = true,
	.can_share = true,
	.has_many_readers = true,
	.open = file_open,
	.close = backend_fd_close,
	.check = file_check,
	.look = file_look,
	.submit = backend_fd_submit,
	.resize = file_resize,
	.undo_grow = file_undo_grow,
	.map = file_map,
};
