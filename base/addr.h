/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv4 and IPv6 addresses with a port. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define ADDR_STRING_MAX 64

union addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage storage;
};

/* A numeric address or a host name (resolved, blocking), without port. 0, -EINVAL or
 * -ENOENT. */
int addr_parse(const char *host, uint16_t port, union addr *ret_addr);
/* "10.0.0.1", "10.0.0.1:4420", "[::1]:4420", "::1". */
int addr_parse_with_port(const char *s, uint16_t default_port, union addr *ret_addr);

socklen_t addr_len(const union addr *addr);
uint16_t addr_port(const union addr *addr);
bool addr_is_wildcard(const union addr *addr);
bool addr_is_equal(const union addr *a, const union addr *b);
/* Whether one party can come from both, whatever the port: of IPv6 the first 64 bits tell, for who has
 * one address has the others behind them. Of link-local ones and those that carry an IPv4 address, where
 * all share these bits, the whole address does. A zeroed one has no party. */
bool addr_is_same_party(const union addr *a, const union addr *b);
/* The address alone, "10.0.0.1" or "::1". */
const char *addr_format_host(char buf[ADDR_STRING_MAX], const union addr *addr);
/* "10.0.0.1:4420" or "[::1]:4420". */
const char *addr_format(char buf[ADDR_STRING_MAX], const union addr *addr);
