/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entry 0 is the address of the first interface that is not the loopback, if there is one, because
 * programs that use the first entry expect such an address. Each query reads the table from the
 * system. Nothing in the data path uses it, because a QP number alone names its owner (node.c).
 */
#include "softrdma/verbs/context.h"
#include "softrdma/verbs/gid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#define MAX_GIDS 64

struct entry {
	union ibv_gid gid;
	uint32_t ifindex;
};

void sr_gid_from_sockaddr(const struct sockaddr *sa, union ibv_gid *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (sa->sa_family == AF_INET) { /* RoCE v2: an IPv4-mapped address */
		const struct sockaddr_in *in = (const void *)sa;

		ret->raw[10] = ret->raw[11] = 0xff;
		memcpy(&ret->raw[12], &in->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)sa;

		memcpy(ret->raw, &in6->sin6_addr, 16);
	}
}

static int add(const struct ifaddrs *i, struct entry *table, int n, bool loopback)
{
	if (!i->ifa_addr || n == MAX_GIDS || !!(i->ifa_flags & IFF_LOOPBACK) != loopback)
		return n;
	if (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)
		return n;
	sr_gid_from_sockaddr(i->ifa_addr, &table[n].gid);
	table[n].ifindex = if_nametoindex(i->ifa_name);
	return n + 1;
}

static int read_table(struct entry table[MAX_GIDS])
{
	struct ifaddrs *all;
	int n = 0;

	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		n = add(i, table, n, false);
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		n = add(i, table, n, true);
	freeifaddrs(all);
	return n;
}

int sr_gid_count(void)
{
	struct entry table[MAX_GIDS];

	return read_table(table) + 1;
}

int sr_gid_at(int index, union ibv_gid *ret, uint32_t *ret_ifindex)
{
	struct entry table[MAX_GIDS];
	int n = read_table(table);

	if (index < 0 || index >= n)
		return -ENODATA;
	*ret = table[index].gid;
	if (ret_ifindex)
		*ret_ifindex = table[index].ifindex;
	return 0;
}

int sr_gid_index(const struct sockaddr *sa)
{
	struct entry table[MAX_GIDS];
	union ibv_gid gid;
	int n = read_table(table);

	sr_gid_from_sockaddr(sa, &gid);
	for (int i = 0; i < n; i++)
		if (!memcmp(&table[i].gid, &gid, sizeof(gid)))
			return i;
	return 0;
}

SR_API int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	int r = port == 1 ? sr_gid_at(index, gid, NULL) : -EINVAL;

	if (r == -ENODATA && index >= 0 && index < sr_gid_count()) {
		*gid = (union ibv_gid){0}; /* as the kernel has empty entries */
		r = 0;
	}
	if (!r)
		return 0;
	errno = -r;
	return -1;
}

/* In no header, but ibv_devinfo calls it (private version node of rdma-core). */
int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned int index, int *type);

SR_API int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned int index, int *type)
{
	*type = 1; /* RoCE v2, in the numbering of that function */
	return 0;
}

static void fill(struct ibv_gid_entry *e, size_t size, int index, const union ibv_gid *gid,
		 uint32_t ifindex)
{
	struct ibv_gid_entry full = {.gid = *gid,
				     .gid_index = (uint32_t)index,
				     .port_num = 1,
				     .gid_type = IBV_GID_TYPE_ROCE_V2,
				     .ndev_ifindex = ifindex};

	memcpy(e, &full, size < sizeof(full) ? size : sizeof(full));
}

SR_API int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index,
			     struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	union ibv_gid gid;
	uint32_t ifindex;

	if (port != 1 || flags)
		return EINVAL;
	if (sr_gid_at((int)index, &gid, &ifindex))
		return ENODATA;
	fill(entry, size, (int)index, &gid, ifindex);
	return 0;
}

SR_API ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries,
				    size_t max, uint32_t flags, size_t size)
{
	struct entry table[MAX_GIDS];
	int n = read_table(table);

	if (flags || (size_t)n > max)
		return -EINVAL;
	for (int i = 0; i < n; i++)
		fill((struct ibv_gid_entry *)(void *)((char *)entries + (size_t)i * size), size, i,
		     &table[i].gid, table[i].ifindex);
	return n;
}
