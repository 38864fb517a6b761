/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Discovery log page as a host reads it. Any thread. Its strings are ASCII, ended by NUL
 * (nvmet) or padded with blanks (SPDK); unprintable strings are refused, because a terminal shows
 * them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/units.h"
#include "initiator/control/discovery_log.h"

enum {
	DEFAULT_PORT = 4420,
};

/* 0, or -EPROTO: unprintable, or longer than n_dst - 1. */
static int take_text(char *dst, size_t n_dst, const uint8_t *src, size_t n_src)
{
	size_t n = 0;

	while (n < n_src && src[n])
		n++;
	while (n && src[n - 1] == ' ')
		n--;
	if (n >= n_dst)
		return -EPROTO;
	for (size_t i = 0; i < n; i++)
		if (src[i] < 0x20 || src[i] > 0x7e)
			return -EPROTO;
	memcpy(dst, src, n);
	dst[n] = '\0';
	return 0;
}

int discovery_parse_header(const void *data, uint64_t *ret_genctr, unsigned *ret_n)
{
	const struct nvmf_discovery_header *header = data;

	if (get_le16(header->recfmt))
		return -EPROTO;
	*ret_genctr = get_le64(header->genctr);
	*ret_n = (unsigned)MIN(get_le64(header->numrec), (uint64_t)DISCOVER_RECORDS_MAX);
	return 0;
}

int discovery_parse_entry(const void *data, struct discover_record *ret)
{
	const struct nvmf_discovery_entry *entry = data;
	struct discover_record record = {
		.subtype = entry->subtype,
		.transport = entry->trtype,
		.address_family = entry->adrfam,
		.port_id = get_le16(entry->portid),
	};

	if (take_text(record.subnqn, sizeof(record.subnqn), entry->subnqn, sizeof(entry->subnqn)) ||
	    take_text(record.traddr, sizeof(record.traddr), entry->traddr, sizeof(entry->traddr)) ||
	    take_text(record.trsvcid, sizeof(record.trsvcid), entry->trsvcid,
		      sizeof(entry->trsvcid)))
		return -EPROTO;
	*ret = record;
	return 0;
}

static int parse_port(const char *text, uint16_t *ret_port)
{
	uint64_t port = DEFAULT_PORT;

	if (*text && (units_parse_uint(text, &port) < 0 || !port || port > UINT16_MAX))
		return -EPROTO;
	*ret_port = (uint16_t)port;
	return 0;
}

/* No name is looked up: that would block, and the peer would choose it. */
static bool parse_address(const struct discover_record *record, union addr *ret_address)
{
	bool is_v6 = record->address_family == NVMF_ADRFAM_IPV6;
	union addr address = {0};
	uint16_t port;

	if (record->transport != NVMF_TRTYPE_RDMA ||
	    (!is_v6 && record->address_family != NVMF_ADRFAM_IPV4) ||
	    parse_port(record->trsvcid, &port) < 0)
		return false;
	if (is_v6) {
		address.in6.sin6_family = AF_INET6;
		address.in6.sin6_port = htons(port);
	} else {
		address.in.sin_family = AF_INET;
		address.in.sin_port = htons(port);
	}
	if (inet_pton(address.sa.sa_family, record->traddr,
		      is_v6 ? (void *)&address.in6.sin6_addr : (void *)&address.in.sin_addr) != 1 ||
	    addr_is_wildcard(&address) || addr_lacks_scope(&address))
		return false;
	*ret_address = address;
	return true;
}

bool discovery_portal(const struct discover_record *record, const char *subnqn,
		      union addr *ret_address)
{
	return record->subtype == NVMF_SUBTYPE_NVM && !strcmp(record->subnqn, subnqn) &&
	       parse_address(record, ret_address);
}

bool discovery_referral(const struct discover_record *record, union addr *ret_address)
{
	return record->subtype == NVMF_SUBTYPE_REFERRAL && parse_address(record, ret_address);
}
