/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When both are one socket, it is used as it is. Else (pipes, files) two threads pump bytes between
 * them and a socketpair, so that connections only know stream sockets. The reading thread may block
 * for ever in a read of a terminal, so it is never joined. The writing thread ends when the
 * connection has closed its end; stdio_finish joins it, or the last replies would be lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nbd_bridge/control/stdio.h"

static struct {
	int fd; /* our end of the socketpair */
	pthread_t writer;
	bool has_writer;
} pump = {.fd = -1};

static bool write_all(int fd, const char *bytes, size_t n)
{
	while (n) {
		ssize_t done = write(fd, bytes, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		bytes += done;
		n -= (size_t)done;
	}
	return true;
}

static void copy(int from, int to)
{
	static _Thread_local char bytes[65536];
	ssize_t n;

	do {
		n = read(from, bytes, sizeof(bytes));
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0 && !write_all(to, bytes, (size_t)n))
			return;
	} while (n > 0);
}

static void *pump_in(void *arg)
{
	struct pollfd out = {.fd = STDOUT_FILENO};

	copy(STDIN_FILENO, pump.fd);
	shutdown(pump.fd, SHUT_WR);
	/* Without a reader of the answers the client is gone. */
	while (poll(&out, 1, -1) < 0 && errno == EINTR)
		;
	shutdown(pump.fd, SHUT_RDWR);
	return NULL;
}

static void *pump_out(void *arg)
{
	copy(pump.fd, STDOUT_FILENO);
	return NULL;
}

static bool is_one_socket(void)
{
	struct stat in, out;

	return fstat(STDIN_FILENO, &in) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
	       S_ISSOCK(in.st_mode) && in.st_ino == out.st_ino;
}

static int start_pumps(int *ret_fd)
{
	pthread_t reader;
	int fds[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	pump.fd = fds[0];
	r = fcntl(fds[1], F_SETFL, O_NONBLOCK) < 0 ? errno : 0;
	if (r == 0)
		r = pthread_create(&pump.writer, NULL, pump_out, NULL);
	pump.has_writer = r == 0;
	if (r == 0)
		r = pthread_create(&reader, NULL, pump_in, NULL);
	if (r == 0)
		pthread_detach(reader);
	if (r != 0) {
		close(fds[1]);
		stdio_finish();
		return -r;
	}
	*ret_fd = fds[1];
	return 0;
}

int stdio_open(int *ret_fd)
{
	int fd;

	if (!is_one_socket())
		return start_pumps(ret_fd);
	fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

void stdio_leave(void)
{
	if (pump.has_writer)
		pthread_detach(pump.writer);
	pump.has_writer = false;
}

void stdio_finish(void)
{
	if (!pump.has_writer)
		return;
	pthread_join(pump.writer, NULL);
	pump.has_writer = false;
}
