/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded under valgrind, which does not know pidfd_open and pidfd_getfd: has instructions.py do
 * them, over the socket named by BENCH_PIDFD_SOCKET, and gets the file descriptor back.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

long syscall(long number, ...);

/* The descriptor arrives by SCM_RIGHTS, as a new number in this process. */
static long receive_fd(int socket)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	int fd = -1;

	if (recvmsg(socket, &msg, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* The request: {pid or pidfd's pid, file descriptor there or -1}. */
static long ask(int32_t pid, int32_t fd)
{
	const char *path = getenv("BENCH_PIDFD_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int32_t question[2] = {pid, fd};
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	long answer = -1;

	if (path && strlen(path) < sizeof(address.sun_path))
		strcpy(address.sun_path, path);
	if (!connect(s, (struct sockaddr *)&address, sizeof(address)) &&
	    send(s, question, sizeof(question), 0) == sizeof(question))
		answer = receive_fd(s);
	close(s);
	if (answer < 0)
		errno = ENOSYS;
	return answer;
}

static int32_t pid_of[1024]; /* by pidfd */

/* Anything else goes to the C library, with as many arguments as a call can have. */
long syscall(long number, ...)
{
	static long (*next)(long number, ...);
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_pidfd_open) {
		long fd = ask((int32_t)a[0], -1);

		if (fd >= 0 && fd < (long)(sizeof(pid_of) / sizeof(*pid_of)))
			pid_of[fd] = (int32_t)a[0];
		return fd;
	}
	if (number == SYS_pidfd_getfd)
		return ask(pid_of[a[0] & 1023], (int32_t)a[1]);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
