/* SPDX-License-Identifier: BSD-3-Clause */
/* IPv4 and IPv6 addresses with a port: parsing, comparing, printing. Plain data, any thread. */
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

/* host is a numeric address or a host name, without a port. A name blocks until it is resolved. 0;
 * -EINVAL: neither of them; -ENOENT: an unknown name. */
int addr_parse(const char *host, uint16_t port, union addr *ret_addr);
/* Parses "10.0.0.1", "10.0.0.1:4420", "[::1]:4420" or "::1". Errors as addr_parse. */
int addr_parse_with_port(const char *s, uint16_t default_port, union addr *ret_addr);

/* The same without names, whose lookup takes time and may return another address tomorrow, and with
 * a port that is not 0. 0 or -EINVAL. */
int addr_parse_numeric(const char *s, uint16_t default_port, union addr *ret_addr);
/* Whether this process may open IP sockets: a service manager may have forbidden them. what: which
 * part needs them. 0, or -EAFNOSUPPORT with *error. */
struct error;
int addr_check_ip(const char *what, struct error *error);

/* Addresses of either family. Two are equal when family, address, port and IPv6 scope are. */
socklen_t addr_len(const union addr *addr);
uint16_t addr_port(const union addr *addr);
bool addr_is_wildcard(const union addr *addr);
/* Link-local, without the interface that it needs ("fe80::1%eth0"). */
bool addr_lacks_scope(const union addr *addr);
bool addr_is_link_local(const union addr *addr); /* IPv6's */
bool addr_is_loopback(const union addr *addr);	 /* no other machine can reach it */
bool addr_is_equal(const union addr *a, const union addr *b);
/* Whether one party can use both addresses, with any ports. For IPv6 the first 64 bits decide: a
 * party with one address has the others of that prefix, too. For link-local and IPv4-mapped
 * addresses, which all share these bits, the whole address decides. A zeroed address belongs to no
 * party. */
bool addr_is_same_party(const union addr *a, const union addr *b);
/* The address alone, "10.0.0.1" or "::1". */
const char *addr_format_host(char buf[ADDR_STRING_MAX], const union addr *addr);
/* "10.0.0.1:4420" or "[::1]:4420". */
const char *addr_format(char buf[ADDR_STRING_MAX], const union addr *addr);
