/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any machine can send such a message, with any address as its sender's. So none ends or slows
 * down what works, and no more of them are heeded than can be afforded. "Port unreachable" is a
 * hint for connection requests, "too big" a line for people; all others are read and dropped.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <stdio.h>
#include <string.h>

#include "softrdma/fabric/roce/errors.h"
#include "softrdma/fabric/roce/member.h"
#include "softrdma/fabric/roce/port.h"
#include "softrdma/process/timer.h"
#include "softrdma/verbs/gid.h"

enum {
	AT_ONCE = 64,
	REPORTS = 16, /* of refusals, in each period: so the inboxes have room for what is real */
};

#define PERIOD_NS 100000000u

/* The helper of each process, this one's included. */
static void tell_all(const struct roce_port *p, const union ibv_gid *from)
{
	struct roce_passed passed = {
		.kind = ROCE_PASSED_UNREACHABLE, .local = p->gid, .remote = *from};

	for (unsigned i = 0; i < ROCE_MEMBERS; i++) {
		uint16_t inbox = atomic_load(&p->group.directory->members[i]);

		if (inbox)
			roce_member_pass(inbox, &passed);
	}
}

static bool may_report(struct roce_port *p)
{
	uint64_t now = sr_now_ns();

	if (now - atomic_load(&p->reports_ns) > PERIOD_NS) {
		atomic_store(&p->reports_ns, now);
		atomic_store(&p->n_reports, 0);
	}
	return atomic_fetch_add(&p->n_reports, 1) < REPORTS;
}

/* Once: packets of the size that was agreed upon are sent on, whatever is claimed. */
static void say_too_big(const union ibv_gid *to, uint32_t mtu)
{
	static _Atomic bool said;
	char text[INET6_ADDRSTRLEN];
	bool v4 = roce_gid_is_ip4(to);

	if (atomic_exchange(&said, true))
		return;
	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? to->raw + 12 : to->raw, text, sizeof(text));
	fprintf(stderr,
		"softrdma: ICMP claims that packets to %s may have %u bytes at most, which is not heeded: if it is true, give the route this MTU\n",
		text, mtu);
}

static bool is_report(const struct cmsghdr *c)
{
	return (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
	       (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR);
}

static void take_error(struct roce_port *p, const struct sock_extended_err *e,
		       const struct sockaddr_in6 *to)
{
	union ibv_gid gid;

	sr_gid_from_sockaddr((const struct sockaddr *)to, &gid);
	if (e->ee_errno == EMSGSIZE && e->ee_origin != SO_EE_ORIGIN_LOCAL)
		say_too_big(&gid, e->ee_info);
	if (e->ee_errno == ECONNREFUSED && may_report(p))
		tell_all(p, &gid);
}

/*
 * The socket also keeps the last error itself, for the next call. Where no process sends or
 * receives, that call does not come, and the helper would be woken for ever.
 */
static void clear(int sock)
{
	int error;
	socklen_t len = sizeof(error);

	getsockopt(sock, SOL_SOCKET, SO_ERROR, &error, &len);
}

void roce_read_errors(struct roce_port *p, int sock)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[512];
	} control;
	struct sockaddr_in6 to;

	for (int i = 0; i < AT_ONCE; i++) {
		struct msghdr m = {.msg_name = &to,
				   .msg_namelen = sizeof(to),
				   .msg_control = &control,
				   .msg_controllen = sizeof(control)};

		if (recvmsg(sock, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			break;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
			if (is_report(c))
				take_error(p, (const void *)CMSG_DATA(c), &to);
	}
	clear(sock);
}
