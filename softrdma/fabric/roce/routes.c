/* SPDX-License-Identifier: BSD-3-Clause */
/* The routes of the host, asked for by netlink; see routes.h. */
#include "softrdma/fabric/roce/routes.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "softrdma/fabric/roce/icrc.h"

enum {
	ANSWER = 4096
};

unsigned roce_interface_mtu(const char name[IF_NAMESIZE])
{
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {0};
	unsigned mtu = 0;

	if (sock < 0)
		return 0;
	memcpy(request.ifr_name, name, IF_NAMESIZE);
	if (!ioctl(sock, SIOCGIFMTU, &request))
		mtu = (unsigned)request.ifr_mtu;
	close(sock);
	return mtu;
}

struct ends {
	const union ibv_gid *local, *remote;
	uint32_t scope;
};

struct route {
	uint32_t ifindex;
	uint32_t mtu; /* 0: none is set */
	bool is_locked;
};

struct question {
	struct nlmsghdr head;
	struct rtmsg route;
	uint8_t attributes[64];
};

static void add(struct question *q, uint16_t type, const void *data, uint16_t n)
{
	struct rtattr *a = (void *)((uint8_t *)q + NLMSG_ALIGN(q->head.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(n);
	memcpy(RTA_DATA(a), data, n);
	q->head.nlmsg_len = NLMSG_ALIGN(q->head.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

static void make_question(const struct ends *e, unsigned flags, struct question *ret)
{
	bool v4 = roce_gid_is_ip4(e->remote);
	unsigned from = v4 ? 12 : 0, n = v4 ? 4 : 16;

	*ret = (struct question){
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(ret->route)),
			 .nlmsg_type = RTM_GETROUTE,
			 .nlmsg_flags = NLM_F_REQUEST},
		.route = {.rtm_family = v4 ? AF_INET : AF_INET6, .rtm_flags = flags}};
	ret->route.rtm_dst_len = ret->route.rtm_src_len = (uint8_t)(8 * n);
	add(ret, RTA_DST, e->remote->raw + from, (uint16_t)n);
	add(ret, RTA_SRC, e->local->raw + from, (uint16_t)n);
	if (e->scope &&
	    IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)(const void *)e->remote->raw))
		add(ret, RTA_OIF, &e->scope, sizeof(e->scope));
}

static void read_metrics(const struct rtattr *metrics, struct route *ret)
{
	size_t n = RTA_PAYLOAD(metrics);
	uint32_t value;

	for (const struct rtattr *a = RTA_DATA(metrics); RTA_OK(a, n); a = RTA_NEXT(a, n)) {
		if (RTA_PAYLOAD(a) < sizeof(value))
			continue;
		memcpy(&value, RTA_DATA(a), sizeof(value));
		if (a->rta_type == RTAX_MTU)
			ret->mtu = value;
		else if (a->rta_type == RTAX_LOCK)
			ret->is_locked = value & 1u << RTAX_MTU;
	}
}

static bool read_answer(const struct nlmsghdr *m, size_t n, struct route *ret)
{
	const struct rtattr *a;

	*ret = (struct route){0};
	if (!NLMSG_OK(m, n) || m->nlmsg_type != RTM_NEWROUTE)
		return false;
	a = RTM_RTA(NLMSG_DATA(m));
	n = RTM_PAYLOAD(m);
	for (; RTA_OK(a, n); a = RTA_NEXT(a, n)) {
		if (a->rta_type == RTA_OIF && RTA_PAYLOAD(a) >= sizeof(ret->ifindex))
			memcpy(&ret->ifindex, RTA_DATA(a), sizeof(ret->ifindex));
		else if (a->rta_type == RTA_METRICS)
			read_metrics(a, ret);
	}
	return true;
}

static bool ask(int sock, const struct ends *e, unsigned flags, struct route *ret)
{
	union {
		struct nlmsghdr head;
		uint8_t bytes[ANSWER];
	} answer;
	struct question q;
	ssize_t n;

	make_question(e, flags, &q);
	if (send(sock, &q, q.head.nlmsg_len, 0) < 0)
		return false;
	n = recv(sock, &answer, sizeof(answer), 0);
	return n > 0 && read_answer(&answer.head, (size_t)n, ret);
}

/* Router advertisements change the MTU of IPv6 routes, unless it is locked. */
static bool is_set_here(const struct ends *e, const struct route *r)
{
	return r->mtu && (r->is_locked || roce_gid_is_ip4(e->remote));
}

/* As it is used now for the interface, which may be one of several; as it stands in the table for
 * its MTU, which in use is also what ICMP has said. */
static bool find(int sock, const struct ends *e, struct route *ret)
{
	struct route table;

	if (!ask(sock, e, 0, ret))
		return false;
	ret->mtu = ask(sock, e, RTM_F_FIB_MATCH, &table) && is_set_here(e, &table) ? table.mtu : 0;
	return true;
}

int roce_route_mtu(const union ibv_gid *local, const union ibv_gid *remote, uint32_t scope)
{
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct ends e = {local, remote, scope};
	char name[IF_NAMESIZE];
	struct route r;
	unsigned mtu;
	bool found;

	if (sock < 0)
		return -errno;
	found = find(sock, &e, &r);
	close(sock);
	if (!found || !if_indextoname(r.ifindex, name))
		return 0;
	mtu = roce_interface_mtu(name);
	return (int)(r.mtu && r.mtu < mtu ? r.mtu : mtu);
}
