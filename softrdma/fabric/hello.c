/* SPDX-License-Identifier: BSD-3-Clause */
/* Introductions; see hello.h. The pid comes from SO_PEERCRED, never from the message alone. */
#include "softrdma/fabric/hello.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "softrdma/fabric/seg.h"

static int our_fds[2] = {-1, -1}; /* borrowed */
static uint64_t nonce;		  /* peers read it to prove that they can copy */

void sr_hello_init(int mem_fd, int wake_fd)
{
	nonce = seg_self->instance ^ 0x9e3779b97f4a7c15ULL;
	our_fds[0] = mem_fd;
	our_fds[1] = wake_fd;
}

void sr_hello_fill(struct sr_hello *ret, int ret_fds[2])
{
	*ret = (struct sr_hello){
		.magic = SEG_MAGIC,
		.version = SEG_VERSION,
		.pid = getpid(),
		.instance = seg_self->instance,
		.nonce_addr = (uintptr_t)&nonce,
		.nonce = nonce,
	};
	memcpy(ret_fds, our_fds, sizeof(our_fds));
}

bool sr_hello_is_true(int32_t pid, uint64_t nonce_addr, uint64_t expected)
{
	uint64_t seen = 0;
	struct iovec to = {&seen, sizeof(seen)};
	struct iovec from = {(void *)(uintptr_t)nonce_addr, sizeof(seen)};

	return process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof(seen) && seen == expected;
}

int sr_hello_check(const struct sr_hello *h, const struct ucred *cred)
{
	if (h->magic != SEG_MAGIC || h->version != SEG_VERSION)
		return -EPROTONOSUPPORT;
	if (h->pid != cred->pid) /* another pid namespace: h->pid names no process here */
		return -EXDEV;
	/* Root may read the memory of all, but they get no access to root's. */
	if (cred->uid != geteuid())
		return -EPERM;
	return sr_hello_is_true(cred->pid, h->nonce_addr, h->nonce) ? 0 : -EPERM;
}

int sr_node_name(uint16_t base, struct sockaddr_un *ret)
{
	int n;

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "softrdma.node.%04x", base);
	return (int)offsetof(struct sockaddr_un, sun_path) + 1 + n;
}

/* ---- packets ---- */

int sr_packet_send(int sock, const void *data, size_t len, const int *fds)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fds) {
		struct cmsghdr *c;

		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(2 * sizeof(int));
		memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

ssize_t sr_packet_recv(int sock, void *data, size_t len, int fds[2])
{
	struct iovec iov = {.iov_base = data, .iov_len = len};
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf)};
	struct cmsghdr *c;
	ssize_t n;

	fds[0] = fds[1] = -1;
	n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(2 * sizeof(int)))
		memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
	else
		sr_packet_refuse(&msg);
	return n;
}

/* Closes the descriptors of one control message. */
static void close_all(const struct cmsghdr *c)
{
	int fd;

	for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(fd)) <= c->cmsg_len; i++) {
		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		close(fd);
	}
}

void sr_packet_refuse(struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			close_all(c);
}

void sr_packet_close(int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}
