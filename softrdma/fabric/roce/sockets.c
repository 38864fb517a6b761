/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening the UDP sockets of RoCE; see sockets.h. */
#include "softrdma/fabric/roce/sockets.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "softrdma/fabric/roce/icrc.h"
#include "softrdma/fabric/roce/packet.h"

#ifndef UDP_GRO
#	define UDP_GRO 104
#endif
#ifndef UDP_NO_CHECK6_RX
#	define UDP_NO_CHECK6_RX 102
#endif

enum {
	SOCKET_BUFFER = 4 << 20,
	ECT_0 = 2,
	OUT_BUFFER = 16 << 10,
	FIRST_OUT = 0xc000, /* the ports that RoCE v2 sends from: up to 0xffff */
	TRIES = 64,
};

void roce_sockaddr(const union ibv_gid *gid, uint32_t scope, struct sockaddr_in6 *ret,
		   socklen_t *ret_len)
{
	struct sockaddr_in *in = (void *)ret;

	memset(ret, 0, sizeof(*ret));
	if (roce_gid_is_ip4(gid)) {
		in->sin_family = AF_INET;
		in->sin_port = htons(ROCE_PORT);
		memcpy(&in->sin_addr, gid->raw + 12, 4);
		*ret_len = sizeof(*in);
		return;
	}
	ret->sin6_family = AF_INET6;
	ret->sin6_port = htons(ROCE_PORT);
	memcpy(&ret->sin6_addr, gid->raw, 16);
	ret->sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&ret->sin6_addr) ? scope : 0;
	*ret_len = sizeof(*ret);
}

static void set(int sock, int level, int option, int value)
{
	setsockopt(sock, level, option, &value, sizeof(value));
}

/*
 * PMTUDISC_PROBE: never fragments, and what may leave is up to the interface alone. The path MTU
 * that the kernel learns (PMTUDISC_DO) comes from ICMP, which any machine can send: one forged
 * packet would stop all that is sent to a peer.
 */
static void set_for_sending(int sock, bool v4)
{
	set(sock, SOL_SOCKET, SO_SNDBUF, SOCKET_BUFFER);
	if (v4) {
		set(sock, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
		set(sock, IPPROTO_IP, IP_TOS, ECT_0);
		set(sock, IPPROTO_IP, IP_RECVERR, 1);
		return;
	}
	set(sock, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	set(sock, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
	set(sock, IPPROTO_IPV6, IPV6_TCLASS, ECT_0);
	set(sock, IPPROTO_IPV6, IPV6_RECVERR, 1);
}

static void set_for_receiving(int sock, bool v4)
{
	set(sock, SOL_SOCKET, SO_REUSEPORT, 1);
	set(sock, SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER);
	set(sock, SOL_UDP, UDP_GRO, 1);
	if (v4) {
		set(sock, IPPROTO_IP, IP_RECVTOS, 1);
		return;
	}
	set(sock, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	set(sock, SOL_UDP, UDP_NO_CHECK6_RX, 1); /* rdma_rxe and adapters send none */
}

static int make(bool v4)
{
	int sock = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (sock < 0)
		return -errno;
	set_for_sending(sock, v4);
	return sock;
}

static int bind_to(int sock, const union ibv_gid *gid, uint32_t scope, uint16_t port)
{
	struct sockaddr_in6 sa;
	socklen_t len;

	roce_sockaddr(gid, scope, &sa, &len);
	sa.sin6_port = htons(port); /* IPv4's is at the same place */
	return bind(sock, (struct sockaddr *)&sa, len) ? -errno : 0;
}

/* Returns sock, or closes it and returns the error r. */
static int keep_if(int sock, int r)
{
	if (!r)
		return sock;
	close(sock);
	return r;
}

int roce_socket_open(const union ibv_gid *gid, uint32_t scope)
{
	bool v4 = roce_gid_is_ip4(gid);
	int sock = make(v4);

	if (sock < 0)
		return sock;
	set_for_receiving(sock, v4);
	return keep_if(sock, bind_to(sock, gid, scope, ROCE_PORT));
}

static int bind_at_random(int sock, const union ibv_gid *gid, uint32_t scope, uint16_t *ret_port)
{
	int r = -EADDRINUSE;

	for (unsigned i = 0; i < TRIES && r == -EADDRINUSE; i++) {
		if (getrandom(ret_port, sizeof(*ret_port), 0) != sizeof(*ret_port))
			return -EIO;
		*ret_port |= FIRST_OUT;
		r = bind_to(sock, gid, scope, *ret_port);
	}
	return r;
}

int roce_socket_open_out(const union ibv_gid *gid, uint32_t scope, uint16_t *ret_port)
{
	int sock = make(roce_gid_is_ip4(gid));

	if (sock < 0)
		return sock;
	set(sock, SOL_SOCKET, SO_RCVBUF, OUT_BUFFER); /* for errors; strangers may fill it */
	return keep_if(sock, bind_at_random(sock, gid, scope, ret_port));
}
