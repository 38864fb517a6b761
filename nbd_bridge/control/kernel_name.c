/* SPDX-License-Identifier: BSD-3-Clause */
/* The file about a block device that outlives its process; see kernel_name.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "nbd_bridge/control/kernel_name.h"

static void read_content(int fd, struct kernel_name_content *content)
{
	char text[128];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	*content = (struct kernel_name_content){0};
	text[n > 0 ? n : 0] = '\0';
	if (sscanf(text, "%63s %u %u", content->volume, &content->n_sockets,
		   &content->block_size) != 3)
		content->n_sockets = content->block_size = 0;
}

/* A lock of the open file, not of the process: a second open in this process conflicts, too. */
static const struct flock whole_file = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

static int lock(int fd)
{
	struct flock wanted = whole_file;

	if (fcntl(fd, F_OFD_SETLK, &wanted) == 0)
		return 0;
	return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
}

/* Its owner may remove it between our open and our lock; then it is not the file of that name. */
static bool is_still(int fd, const char *path)
{
	struct stat ours, theirs;

	return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
	       ours.st_dev == theirs.st_dev;
}

int kernel_name_take(struct kernel_name *name, const char *directory, const uuid_t uuid,
		     struct kernel_name_content *ret_content)
{
	char text[UUID_STR_LEN];

	*ret_content = (struct kernel_name_content){0};
	name->fd = -1;
	if (!directory)
		return 0;
	mkdir(directory, 0755);
	uuid_unparse_lower(uuid, text);
	snprintf(name->path, sizeof(name->path), "%.4000s/%s", directory, text);
	for (;;) {
		_autoclose_ int fd = open(name->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		int r;

		if (fd < 0)
			return -errno;
		read_content(fd, ret_content);
		r = lock(fd);
		if (r < 0)
			return r;
		if (is_still(fd, name->path)) {
			fchmod(fd, 0644); /* udev may run programs as another user */
			name->fd = take_fd(&fd);
			return 0;
		}
	}
}

bool kernel_name_is_owned(const char *path, struct kernel_name_content *ret_content)
{
	struct flock wanted = whole_file;
	_autoclose_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	*ret_content = (struct kernel_name_content){0};
	if (fd < 0)
		return false;
	read_content(fd, ret_content);
	return fcntl(fd, F_OFD_GETLK, &wanted) == 0 && wanted.l_type != F_UNLCK;
}

int kernel_name_write(const struct kernel_name *name, const struct kernel_name_content *content)
{
	char text[128];
	int n = snprintf(text, sizeof(text), "%s %u %u\n", content->volume, content->n_sockets,
			 content->block_size);

	if (name->fd < 0)
		return 0;
	if (pwrite(name->fd, text, (size_t)n, 0) != n || ftruncate(name->fd, n) < 0)
		return -errno;
	return 0;
}

void kernel_name_release(struct kernel_name *name, bool is_over)
{
	if (name->fd < 0)
		return;
	if (is_over)
		unlink(name->path);
	close(take_fd(&name->fd));
}
