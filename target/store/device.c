/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Block devices: disks, partitions, logical volumes, loop devices. Opened with O_EXCL, which
 * refuses a device that is mounted, part of a RAID or of a volume group, or exported already; and
 * with O_DIRECT. The attributes of the disk (cache, rotation, preferred sizes, discard) are read
 * from /sys/dev/block/MAJOR:MINOR/queue; those of a partition are its disk's.
 *
 * Zeroes: BLKZEROOUT keeps the space and always works (the kernel writes them if the disk cannot).
 * If the host allows holes, the disk's own zeroing with unmapping is tried first. A discard is
 * BLKDISCARD, which promises nothing about later reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/conf_schema.h"
#include "base/units.h"
#include "target/store/backends.h"
#include "target/store/fd.h"

static int zero_range(struct backend_fd *disk, uint64_t offset, uint64_t n, bool may_unmap)
{
	uint64_t range[2] = {offset, n};

	if (may_unmap && fallocate(disk->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   (off_t)offset, (off_t)n) == 0)
		return 0;
	if (ioctl(disk->fd, BLKZEROOUT, range) == 0)
		return 0;
	return errno == ENOTTY || errno == EINVAL ? -EOPNOTSUPP : -errno;
}

static int discard_range(struct backend_fd *disk, uint64_t offset, uint64_t n)
{
	uint64_t range[2] = {offset, n};

	return ioctl(disk->fd, BLKDISCARD, range) < 0 ? -errno : 0;
}

/* ---- attributes of the disk -------------------------------------------------------- */

/* The line of a queue attribute; "" if there is none. */
static void read_attribute(dev_t device, const char *name, char *ret_line, int n)
{
	static const char *const where[] = {"", "../"};

	ret_line[0] = '\0';
	for (unsigned i = 0; i < 2; i++) {
		_autofclose_ FILE *file = NULL;
		char path[128];

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%squeue/%s", major(device),
			 minor(device), where[i], name);
		file = fopen(path, "re");
		if (!file || !fgets(ret_line, n, file))
			continue;
		ret_line[strcspn(ret_line, "\n")] = '\0';
		return;
	}
}

static uint64_t read_number(dev_t device, const char *name)
{
	char line[32];
	uint64_t value = 0;

	read_attribute(device, name, line, sizeof(line));
	return units_parse_uint(line, &value) < 0 ? 0 : value;
}

static void fill_limits(struct backend_fd *disk, const struct backend_config *config, dev_t device,
			uint64_t size, int sector)
{
	struct backend_limits *limits = &disk->backend.limits;
	uint64_t minimum = read_number(device, "minimum_io_size");
	uint64_t optimal = read_number(device, "optimal_io_size");
	unsigned physical = 0;
	char cache[32];

	read_attribute(device, "write_cache", cache, sizeof(cache));
	if (ioctl(disk->fd, BLKPBSZGET, &physical) < 0)
		physical = 0;
	if (minimum > physical && minimum <= UINT32_MAX)
		physical = (unsigned)minimum;
	*limits = (struct backend_limits){
		.size_bytes = size,
		.min_block = (uint32_t)sector,
		.physical_block = physical,
		.optimal_bytes = optimal <= UINT32_MAX ? (uint32_t)optimal : 0,
		.is_read_only = config->is_read_only,
		/* An unknown cache is flushed. */
		.has_volatile_cache = strcmp(cache, "write through") != 0,
		.others = OTHERS_FAR, /* O_EXCL */
		.durability = !strcmp(cache, "write through") ? DURABILITY_WRITE_THROUGH
			      : !strcmp(cache, "write back")  ? DURABILITY_WRITE_BACK
							      : DURABILITY_UNKNOWN_CACHE,
		.can_discard = !config->is_read_only &&
			       read_number(device, "discard_max_bytes") > 0,
		.can_write_zeroes = read_number(device, "write_zeroes_max_bytes") > 0,
		.is_rotational = read_number(device, "rotational") == 1,
	};
}

/* ---- opening ----------------------------------------------------------------------- */

static int explain_open(const struct backend_config *config, int r, struct error *error)
{
	switch (r) {
	case -EBUSY:
		return backend_fd_refuse(
			config, r, error,
			"is in use: mounted, part of a volume or RAID, or exported already (lsblk shows which)");
	case -ENOENT:
	case -ENXIO:
	case -ENODEV:
		return backend_fd_refuse(config, r, error, "no such device");
	case -EACCES:
	case -EPERM:
		return backend_fd_refuse(config, r, error, "not allowed to open it as user %u: %s",
					 geteuid(), strerror(-r));
	case -EROFS:
		return backend_fd_refuse(config, r, error, "is read-only; set read_only: true");
	default:
		return backend_fd_refuse(config, r, error, "cannot open it: %s", strerror(-r));
	}
}

static int check_open_device(const struct backend_config *config, int fd, uint64_t *ret_size,
			     int *ret_sector, struct error *error)
{
	uint64_t size = 0;
	int sector = 0, is_read_only = 0;

	if (ioctl(fd, BLKGETSIZE64, &size) < 0 || ioctl(fd, BLKSSZGET, &sector) < 0)
		return backend_fd_refuse(config, -errno, error, "cannot tell its size: %s",
					 strerror(errno));
	if (ioctl(fd, BLKROGET, &is_read_only) == 0 && is_read_only && !config->is_read_only)
		return explain_open(config, -EROFS, error);
	if ((uint32_t)sector > config->block_size)
		return backend_fd_refuse(config, -EINVAL, error,
					 "has sectors of %d bytes; set block_size: %d", sector,
					 sector);
	*ret_size = size;
	*ret_sector = sector;
	return backend_fd_check_size(config, size, error);
}

static int check_kind(const struct backend_config *config, const struct stat *st,
		      struct error *error)
{
	if (S_ISBLK(st->st_mode))
		return 0;
	if (S_ISREG(st->st_mode))
		return backend_fd_refuse(config, -ENOTBLK, error,
					 "is a regular file; use 'file' instead of 'device'");
	return backend_fd_refuse(config, -ENOTBLK, error, "is not a block device");
}

static int prepare(struct backend_fd *disk, const struct backend_config *config,
		   struct error *error)
{
	struct stat st;
	uint64_t size;
	int sector, r;

	if (fstat(disk->fd, &st) < 0)
		return backend_fd_refuse(config, -errno, error, "%s", strerror(errno));
	r = check_kind(config, &st, error);
	if (r == 0)
		r = check_open_device(config, disk->fd, &size, &sector, error);
	if (r < 0)
		return r;
	disk->is_direct = disk->can_be_full = true;
	disk->backend.identity[0] = st.st_rdev;
	fill_limits(disk, config, st.st_rdev, size, sector);
	return 0;
}

/* For checks only, without O_EXCL and O_DIRECT; does not open a tape or a modem for writing. */
static int look_at(const struct backend_config *config, struct stat *ret_st, struct error *error)
{
	if (stat(config->path, ret_st) < 0)
		return explain_open(config, -errno, error);
	return check_kind(config, ret_st, error);
}

static int device_open(const struct backend_config *config, struct backend **ret_backend,
		       struct error *error)
{
	int flags = config->is_read_only ? O_RDONLY : O_RDWR;
	struct backend_fd *disk;
	struct stat st;
	int r = look_at(config, &st, error);

	if (r < 0)
		return r;
	disk = backend_fd_new(&backend_device, config->path);
	if (!disk)
		return backend_fd_refuse(config, -ENOMEM, error, "out of memory");
	disk->zero = zero_range;
	disk->discard = discard_range;
	r = disk->fd = backend_fd_open(config->path, flags | O_EXCL | O_DIRECT, false);
	r = r < 0 ? explain_open(config, r, error) : prepare(disk, config, error);
	if (r < 0) {
		backend_fd_close(&disk->backend);
		return r;
	}
	*ret_backend = &disk->backend;
	return 0;
}

static int device_check(const struct backend_config *config, uint64_t ret_identity[2],
			struct error *error)
{
	struct stat st;
	_autoclose_ int fd = -1;
	uint64_t size;
	int sector, r;

	ret_identity[0] = ret_identity[1] = 0;
	r = look_at(config, &st, error);
	if (r < 0)
		return r;
	ret_identity[0] = st.st_rdev;
	fd = backend_fd_open(config->path, O_RDONLY, false);
	if (fd < 0)
		return explain_open(config, fd, error);
	return check_open_device(config, fd, &size, &sector, error);
}

static int device_look(const struct backend_config *config, struct backend_limits *ret_limits,
		       struct error *error)
{
	_autoclose_ int fd = -1;
	struct stat st;
	int sector, r = look_at(config, &st, error);

	if (r < 0)
		return r;
	fd = backend_fd_open(config->path, O_RDONLY, false);
	if (fd < 0)
		return explain_open(config, fd, error);
	r = check_open_device(config, fd, &ret_limits->size_bytes, &sector, error);
	ret_limits->min_block = r < 0 ? 512 : (uint32_t)sector;
	return r;
}

static int device_resize(struct backend *backend, uint64_t size_bytes, struct error *error)
{
	struct backend_fd *disk = container_of(backend, struct backend_fd, backend);
	const struct backend_config config = {.path = disk->path};
	char has[UNITS_MAX];
	uint64_t size;

	if (ioctl(disk->fd, BLKGETSIZE64, &size) < 0)
		return backend_fd_refuse(&config, -errno, error, "cannot tell its size: %s",
					 strerror(errno));
	if (size_bytes && size_bytes != size)
		return backend_fd_refuse(
			&config, -EINVAL, error,
			"the device has %s: change it itself, then resize without a size",
			units_format_exact(has, size));
	backend->limits.size_bytes = size;
	return 0;
}

const struct backend_ops backend_device = {
	.name = "device",
	.key = {.type = CONF_STRING,
		.max = PATH_MAX - 1,
		.check = conf_check_path,
		.help = "Serves this block device."},
	.open = device_open,
	.close = backend_fd_close,
	.check = device_check,
	.look = device_look,
	.submit = backend_fd_submit,
	.resize = device_resize,
};
