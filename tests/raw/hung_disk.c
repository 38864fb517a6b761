/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into rblkd: a disk that hangs. While there is a file FOLDER/hung, I/O to FOLDER/disk
 * does not complete: asynchronous I/O is held, and threads with synchronous I/O sleep. When the
 * file is gone, all of it goes to the disk. FOLDER/held exists while asynchronous I/O is held.
 * While there is a file FOLDER/syncs, it gets a byte for each sync of the disk, and for each write
 * with RWF_DSYNC. While there is a
 * file FOLDER/one, a disk that hangs holds one asynchronous command, and others go on. Other files
 * are not affected.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	HELD_MAX = 4096,
	LOOK_US = 2000,
};

static struct {
	void *context;
	struct iocb *iocb;
} held[HELD_MAX];
static unsigned n_held;
static bool has_thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char control[PATH_MAX]; /* beside the first file that was held */

/* Whether the file is the disk; then path is that of the file of this name beside it. */
static bool is_disk(int fd, const char *name, char path[PATH_MAX])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, PATH_MAX - 8);
	if (n < 5 || memcmp(path + n - 5, "/disk", 5) != 0)
		return false;
	strcpy(path + n - 4, name);
	return true;
}

/* Whether the file is the disk, and hangs; then path is that of the file FOLDER/hung. */
static bool is_hung(int fd, char path[PATH_MAX])
{
	return is_disk(fd, "hung", path) && access(path, F_OK) == 0;
}

/* Whether the file is the disk, and has a file of this name beside it. */
static bool is_there(int fd, const char *name)
{
	char path[PATH_MAX];

	return is_disk(fd, name, path) && access(path, F_OK) == 0;
}

static void count_sync(int fd)
{
	char path[PATH_MAX];
	int file = is_disk(fd, "syncs", path) ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;

	if (file < 0)
		return;
	if (write(file, ".", 1) != 1)
		perror(path);
	close(file);
}

static long submit(void *context, struct iocb *iocb)
{
	return syscall(SYS_io_submit, context, 1L, &iocb) < 0 ? -errno : 1;
}

/* Makes or removes FOLDER/held: whether any I/O is held. */
static void tell(bool is_any_held)
{
	char path[PATH_MAX];

	strcpy(path, control);
	memcpy(path + strlen(path) - 4, "held", 4);
	if (is_any_held)
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	else
		unlink(path);
}

static void *release(void *arg)
{
	while (access(control, F_OK) == 0)
		usleep(LOOK_US);
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < n_held; i++)
		while (submit(held[i].context, held[i].iocb) == -EAGAIN)
			usleep(LOOK_US);
	n_held = 0;
	tell(false);
	has_thread = false;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* False: the disk does not hang. */
static bool hold(void *context, struct iocb *iocb)
{
	char path[PATH_MAX];
	pthread_t thread;
	bool is_held = false;

	pthread_mutex_lock(&lock);
	if (n_held < (is_there((int)iocb->aio_fildes, "one") ? 1 : HELD_MAX) &&
	    is_hung((int)iocb->aio_fildes, path)) {
		strcpy(control, path);
		is_held = has_thread || !pthread_create(&thread, NULL, release, NULL);
		if (is_held && !has_thread)
			pthread_detach(thread);
		has_thread = is_held;
	}
	if (is_held) {
		held[n_held].context = context;
		held[n_held++].iocb = iocb;
		tell(true);
	}
	pthread_mutex_unlock(&lock);
	return is_held;
}

/* Replaces libaio's. */
int io_submit(void *context, long n, struct iocb **iocbs);
int io_submit(void *context, long n, struct iocb **iocbs)
{
	for (long i = 0; i < n; i++) {
		long r;

		if (iocbs[i]->aio_lio_opcode == IOCB_CMD_FDSYNC ||
		    iocbs[i]->aio_rw_flags & RWF_DSYNC)
			count_sync((int)iocbs[i]->aio_fildes);
		r = hold(context, iocbs[i]) ? 1 : submit(context, iocbs[i]);

		if (r < 0)
			return (int)(i ? i : r);
	}
	return (int)n;
}

static void wait_for(int fd)
{
	char path[PATH_MAX];

	while (is_hung(fd, path))
		usleep(LOOK_US);
}

ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	wait_for(fd);
	return syscall(SYS_preadv2, fd, iov, n, at, 0, flags);
}

ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	wait_for(fd);
	return syscall(SYS_pwritev2, fd, iov, n, at, 0, flags);
}

int fdatasync(int fd)
{
	count_sync(fd);
	wait_for(fd);
	return (int)syscall(SYS_fdatasync, fd);
}
