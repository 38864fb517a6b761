/* SPDX-License-Identifier: BSD-3-Clause */
/* The number and the inbox of this process; see member.h. */
#include "softrdma/fabric/roce/member.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "softrdma/fabric/hello.h"
#include "softrdma/fabric/seg.h"
#include "softrdma/process/part.h"

enum {
	MESSAGES = 64, /* of one reading */
};

static int number_fd = -1, inbox_fd = -1;
static int number = -EPERM;
static roce_on_passed *on_passed;

static socklen_t name_of(const char *what, unsigned n, struct sockaddr_un *ret)
{
	int len;

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	len = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "softrdma.%s.%x", what, n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

/* A datagram socket with that name, or -errno. */
static int take_name(const char *what, unsigned n)
{
	struct sockaddr_un name;
	socklen_t len = name_of(what, n, &name);
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

	if (sock < 0 || !bind(sock, (struct sockaddr *)&name, len))
		return sock < 0 ? -errno : sock;
	r = -errno;
	close(sock);
	return r;
}

/* The first free number from a random one on: the number of a process that was killed rests. */
static void take_number(void)
{
	uint8_t first = 0;

	if (getrandom(&first, sizeof(first), 0) != sizeof(first))
		first = (uint8_t)getpid();
	number = -EUSERS;
	for (unsigned i = 0; i < ROCE_MEMBERS && number == -EUSERS; i++) {
		unsigned n = (first + i) % ROCE_MEMBERS;

		number_fd = take_name("member", n);
		if (number_fd >= 0)
			number = (int)n;
		else if (number_fd != -EADDRINUSE)
			number = number_fd;
	}
}

static void constrain_bases(uint16_t *mask, uint16_t *value)
{
	const char *wanted = getenv("SOFTRDMA_ROCE");

	if (!wanted || !*wanted)
		return;
	take_number();
	if (number < 0)
		return;
	*mask = ROCE_MEMBERS - 1;
	*value = (uint16_t)number;
}

static void open_inbox(void)
{
	int on = 1;

	if (number < 0)
		return;
	inbox_fd = take_name("inbox", seg_self->base[0]);
	if (inbox_fd < 0) {
		number = inbox_fd;
		return;
	}
	setsockopt(inbox_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	sr_helper_watch(inbox_fd, SR_WATCH_ROCE_INBOX, 0);
}

int roce_member_number(void)
{
	return number;
}

uint16_t roce_member_inbox(void)
{
	return seg_self->base[0];
}

int roce_member_pass(uint16_t inbox, const struct roce_passed *passed)
{
	struct sockaddr_un name;
	socklen_t len = name_of("inbox", inbox, &name);

	return sendto(inbox_fd, passed, offsetof(struct roce_passed, bytes) + passed->n,
		      MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&name, len) < 0
		       ? -errno
		       : 0;
}

bool roce_member_lives(uint16_t inbox)
{
	struct sockaddr_un name;
	socklen_t len = name_of("inbox", inbox, &name);
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool lives = sock < 0 || !connect(sock, (struct sockaddr *)&name, len);

	if (sock >= 0)
		close(sock);
	return lives;
}

/* Whether a process of this user has sent it. */
static bool is_trusted(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		struct ucred cred;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&cred, CMSG_DATA(c), sizeof(cred));
		return cred.uid == geteuid();
	}
	return false;
}

/* False: the inbox is empty. */
static bool take_one(void)
{
	static struct roce_passed passed; /* of the helper */
	struct iovec iov = {&passed, sizeof(passed)};
	union {
		struct cmsghdr align;
		uint8_t bytes[256];
	} control;
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(inbox_fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return false;
	sr_packet_refuse(&m);
	if ((size_t)n >= offsetof(struct roce_passed, bytes) &&
	    passed.n == (size_t)n - offsetof(struct roce_passed, bytes) && is_trusted(&m))
		on_passed(&passed);
	return true;
}

static void on_inbox(uint64_t id)
{
	for (int i = 0; i < MESSAGES && take_one(); i++)
		;
}

void roce_member_receive(roce_on_passed *fn)
{
	on_passed = fn;
}

static void forget(void)
{
	if (number_fd >= 0)
		close(number_fd);
	if (inbox_fd >= 0)
		close(inbox_fd);
	number_fd = inbox_fd = -1;
	number = -EPERM;
}

static const struct sr_part part = {.start = open_inbox,
				    .forget = forget,
				    .constrain_bases = constrain_bases,
				    .on_watch[SR_WATCH_ROCE_INBOX] = on_inbox};
SR_PART(part);
