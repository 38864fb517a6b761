/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets of RoCE: those of UDP port 4791, which receive, and those from which the packets to one
 * peer leave. Functions return a descriptor, owned by the caller, or -errno. Any thread.
 */
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

/* Port 4791 of an address. scope: the interface, for a link-local one. IPv4 or IPv6. */
void roce_sockaddr(const union ibv_gid *gid, uint32_t scope, struct sockaddr_in6 *ret,
		   socklen_t *ret_len);
/* Bound to port 4791 of an address of this host, beside others of this user. */
int roce_socket_open(const union ibv_gid *gid, uint32_t scope);
/* Bound to a random port, *ret_port (host order), which it has alone. Nothing is received there. */
int roce_socket_open_out(const union ibv_gid *gid, uint32_t scope, uint16_t *ret_port);
