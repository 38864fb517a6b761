/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Discovery log page of a hostile target: a header, then one entry; missing bytes are zero.
 * Text that the parser passes must be safe to print on a terminal.
 */
#include <string.h>

#include "base/check.h"
#include "initiator/control/discovery_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_text(const char *text, size_t n_max)
{
	size_t n = strnlen(text, n_max);

	check(n < n_max);
	for (size_t i = 0; i < n; i++)
		check(text[i] >= 0x20 && text[i] <= 0x7e);
}

/* An entry is one of the two, and its address has all that connecting needs. */
static void check_address(const struct discover_record *record)
{
	union addr address = {0};
	bool is_portal = discovery_portal(record, record->subnqn, &address);

	if (!is_portal && !discovery_referral(record, &address))
		return;
	check(!is_portal || !discovery_referral(record, &address));
	check(addr_port(&address) && !addr_is_wildcard(&address));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct nvmf_discovery_header header = {0};
	struct nvmf_discovery_entry entry = {0};
	size_t n_header = n < sizeof(header) ? n : sizeof(header);
	size_t n_entry = n - n_header;
	struct discover_record record;
	uint64_t genctr;
	unsigned n_records;

	memcpy(&header, data, n_header);
	memcpy(&entry, data + n_header, n_entry < sizeof(entry) ? n_entry : sizeof(entry));
	if (discovery_parse_header(&header, &genctr, &n_records) == 0)
		check(n_records <= DISCOVER_RECORDS_MAX);
	if (discovery_parse_entry(&entry, &record) == 0) {
		check_text(record.subnqn, sizeof(record.subnqn));
		check_text(record.traddr, sizeof(record.traddr));
		check_text(record.trsvcid, sizeof(record.trsvcid));
		check_address(&record);
	}
	return 0;
}
