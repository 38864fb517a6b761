/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Discovery log page as a host reads it. Any thread. Its strings are ASCII, ended by NUL
 * (nvmet) or padded with blanks (SPDK); unprintable strings are refused, because a terminal shows
 * them.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "initiator/control/discovery_log.h"

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
