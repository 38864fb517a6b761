/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses; see addr.h. Numeric addresses never reach the resolver. Text that only looks numeric
 * ("256.1.1.1", "0x7f.1") is refused: it is neither sent to DNS nor read as inet_aton reads it.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/error.h"
#include "base/units.h"

enum {
	PARTY_PREFIX_BYTES = 8,
};

static void set_port(union addr *addr, uint16_t port)
{
	if (addr->sa.sa_family == AF_INET)
		addr->in.sin_port = htons(port);
	else
		addr->in6.sin6_port = htons(port);
}

static int lookup(const char *host, int flags, uint16_t port, union addr *ret_addr)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *info;

	if (getaddrinfo(host, NULL, &hints, &info))
		return -ENOENT;
	*ret_addr = (union addr){0};
	memcpy(ret_addr, info->ai_addr, info->ai_addrlen);
	freeaddrinfo(info);
	set_port(ret_addr, port);
	return 0;
}

/* Letters, digits, '-', '.' and '_'; the last label does not begin with a digit (RFC 1123). */
static bool is_host_name(const char *s)
{
	const char *label = s;

	if (!*s || *s == '.' || *s == '-' || strlen(s) > 253)
		return false;
	for (; *s; s++) {
		if (!isalnum((unsigned char)*s) && !strchr("-._", *s))
			return false;
		if (*s == '.' && s[1])
			label = s + 1;
	}
	return !isdigit((unsigned char)*label);
}

/* -ENOENT: it is a name, or nothing that has the form of an address. */
static int parse_numeric(const char *host, uint16_t port, union addr *ret_addr)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, host, &v4) == 1) {
		*ret_addr = (union addr){0};
		ret_addr->in = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = v4};
		return 0;
	}
	if (strchr(host, ':')) /* getaddrinfo, since inet_pton knows no scope: fe80::1%eth0 */
		return lookup(host, AI_NUMERICHOST, port, ret_addr) ? -EINVAL : 0;
	return -ENOENT;
}

int addr_parse(const char *host, uint16_t port, union addr *ret_addr)
{
	int r = parse_numeric(host, port, ret_addr);

	if (r != -ENOENT)
		return r;
	return is_host_name(host) ? lookup(host, 0, port, ret_addr) : -EINVAL;
}

static int parse_port(const char *s, uint16_t *ret_port)
{
	uint64_t port;

	if (units_parse_uint(s, &port) < 0 || port > UINT16_MAX)
		return -EINVAL;
	*ret_port = (uint16_t)port;
	return 0;
}

static int split(const char *s, char ret_host[NI_MAXHOST], uint16_t *port)
{
	const char *end, *colon = strchr(s, ':');

	if (*s == '[') {
		end = strchr(++s, ']');
		if (!end || (end[1] && end[1] != ':') || !memchr(s, ':', (size_t)(end - s)))
			return -EINVAL;
		colon = end[1] ? end + 1 : NULL;
	} else if (colon && !strchr(colon + 1, ':')) {
		end = colon;
	} else { /* no port; several colons are an IPv6 address */
		colon = NULL;
		end = s + strlen(s);
	}
	if (colon && parse_port(colon + 1, port) < 0)
		return -EINVAL;
	if (end - s >= NI_MAXHOST)
		return -EINVAL;
	memcpy(ret_host, s, (size_t)(end - s));
	ret_host[end - s] = '\0';
	return 0;
}

int addr_parse_with_port(const char *s, uint16_t default_port, union addr *ret_addr)
{
	char host[NI_MAXHOST];
	uint16_t port = default_port;
	int r = split(s, host, &port);

	return r < 0 ? r : addr_parse(host, port, ret_addr);
}

int addr_parse_numeric(const char *s, uint16_t default_port, union addr *ret_addr)
{
	char host[NI_MAXHOST];
	uint16_t port = default_port;

	if (split(s, host, &port) < 0 || !port || parse_numeric(host, port, ret_addr) < 0)
		return -EINVAL;
	return 0;
}

int addr_check_ip(const char *what, struct error *error)
{
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sock >= 0)
		close(sock);
	if (sock >= 0 || errno != EAFNOSUPPORT)
		return 0;
	error_set(error, EXIT_PRIVILEGE,
		  "in a unit: RestrictAddressFamilies=AF_INET AF_INET6 in a drop-in",
		  "this process may not open IP sockets, which %s needs", what);
	return -EAFNOSUPPORT;
}

socklen_t addr_len(const union addr *addr)
{
	return addr->sa.sa_family == AF_INET ? sizeof(addr->in) : sizeof(addr->in6);
}

uint16_t addr_port(const union addr *addr)
{
	return ntohs(addr->sa.sa_family == AF_INET ? addr->in.sin_port : addr->in6.sin6_port);
}

bool addr_is_wildcard(const union addr *addr)
{
	if (addr->sa.sa_family == AF_INET)
		return addr->in.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
}

bool addr_is_link_local(const union addr *addr)
{
	return addr->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->in6.sin6_addr);
}

bool addr_lacks_scope(const union addr *addr)
{
	return addr_is_link_local(addr) && !addr->in6.sin6_scope_id;
}

bool addr_is_loopback(const union addr *addr)
{
	if (addr->sa.sa_family == AF_INET)
		return ntohl(addr->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&addr->in6.sin6_addr);
}

static bool is_equal_host(const union addr *a, const union addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return a->sa.sa_family == AF_INET6 &&
	       IN6_ARE_ADDR_EQUAL(&a->in6.sin6_addr, &b->in6.sin6_addr) &&
	       a->in6.sin6_scope_id == b->in6.sin6_scope_id;
}

bool addr_is_equal(const union addr *a, const union addr *b)
{
	return addr_port(a) == addr_port(b) && is_equal_host(a, b);
}

static bool has_party_prefix(const union addr *addr)
{
	return addr->sa.sa_family == AF_INET6 && !addr_is_link_local(addr) &&
	       !IN6_IS_ADDR_V4MAPPED(&addr->in6.sin6_addr);
}

bool addr_is_same_party(const union addr *a, const union addr *b)
{
	if (!has_party_prefix(a) || !has_party_prefix(b))
		return is_equal_host(a, b);
	return !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, PARTY_PREFIX_BYTES);
}

const char *addr_format_host(char buf[ADDR_STRING_MAX], const union addr *addr)
{
	if (getnameinfo(&addr->sa, addr_len(addr), buf, ADDR_STRING_MAX, NULL, 0, NI_NUMERICHOST))
		strcpy(buf, "-"); /* zeroed: no address yet */
	return buf;
}

const char *addr_format(char buf[ADDR_STRING_MAX], const union addr *addr)
{
	char host[ADDR_STRING_MAX];

	addr_format_host(host, addr);
	/* At most 63 characters: a full link-local address, an interface name, a port. */
	if (snprintf(buf, ADDR_STRING_MAX, addr->sa.sa_family == AF_INET6 ? "[%s]:%u" : "%s:%u",
		     host, addr_port(addr)) >= ADDR_STRING_MAX)
		buf[ADDR_STRING_MAX - 1] = '\0';
	return buf;
}
